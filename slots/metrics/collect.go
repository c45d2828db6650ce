package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics, in the order of docs/metrics.md, which explains them to operators.
var (
	databaseUp = desc("database_up", "1 if the database has answered; 0 if not, or if not asked yet.")

	checks   = desc("checks_total", "Rows whose check was recorded, by how it ended.", "job_exec", "outcome")
	lateness = desc("check_lateness_seconds", "From the slot of a row to the start of its check.", "job_exec")
	duration = desc("check_duration_seconds", "Run time of a check; for a batch, the share of each row.", "job_exec")
	sla      = desc("sla_seconds", "The SLA of the job: the longest time from a slot to the start of a check.",
		"job_exec")
	slaBroken = desc("sla_broken_checks_total", "Checks that began later than the SLA of the job allows.", "job_exec")
	yielded   = desc("yielded_rows_total", "Rows that their owner cancelled or moved while they were checked.")
	abandoned = desc("abandoned_checks_total", "Checks that ignored their timeout and the grace period.")

	ran      = desc("runs_total", "Runs of a slot by this process, by how they ended.", "kind", "result")
	runTime  = desc("run_duration_seconds", "Run time of a slot in this process.", "kind")
	lastTook = desc("last_run_duration_seconds", "Run time of the last slot in this process.", "kind")
	lastEnd  = desc("last_run_timestamp_seconds", "When the last run or catch-up of this process ended.", "kind")
	lastGood = desc("last_run_success_timestamp_seconds",
		"When the last run or catch-up of this process ended without failure.", "kind")
	takenOver  = desc("claims_taken_over_total", "Claims taken over from other runners whose lease had expired.")
	leasesLost = desc("leases_lost_total", "Claims lost to other runners, or whose lease could not be renewed.")

	published = desc("events_published_total", "Events that were written to the outbox.")
	refused   = desc("events_failed_total", "Failed attempts to send an event to a destination, or a message to people.")

	slotWidth   = desc("slot_width_seconds", "Distance between two slots.")
	slotBegan   = desc("slot_timestamp_seconds", "The current slot.")
	slotLag     = desc("slot_lag_seconds", "Time since the oldest slot began that is not done; 0 if all are done.")
	ledgerAhead = desc("ledger_ahead_seconds",
		"How far the ledger lies beyond the current slot, because the clock was ahead; 0 if it does not.")
	slotPlanned = desc("slot_planned_rows", "Rows of the current slot when it was opened; an estimate if there are many.")
	slotChecked = desc("slot_checked_rows", "Rows of the current slot whose outcome is recorded.")
	slotFailed  = desc("slot_failed_rows", "Rows of the current slot whose check failed.")
	unfinished  = desc("unfinished_slots", "Slots that are missed, left open, being run, or have stragglers.", "state")
	overdue     = desc("overdue_rows",
		"Rows that wait in slots that are missed, left open or done, or in the current slot if no run has opened it "+
			"for more than a minute. Counting stops at 1,000 slots, and at 100,000 rows or at 1,000 of each "+
			"job and slot if that is more. Beside the 100 largest numbers, the rest of each state has no job.",
		"job_exec", "state")
	claims = desc("claims", "Claims of open slots: live, or expired and not taken over yet.", "state")

	forecastRows = desc("forecast_rows", "Forecast rows of a coming slot: the next one (1), the one after it (2) ...",
		"ahead")
	forecastTook = desc("forecast_duration_seconds", "Forecast run time of a coming slot.", "ahead")

	waiting = desc("outbox_waiting_events",
		"Events that a consumer gets and has not acknowledged, of the first 10,000 behind its position.", "consumer")
	oldest = desc("outbox_oldest_waiting_seconds",
		"Time since the oldest of the waiting events of a consumer was written; 0 if there are none.", "consumer")
	dead = desc("dead_letter_events",
		"Events that were given up because their destination refused them, or that are held back behind one.")
	blocking = desc("outbox_blocking_transaction_seconds",
		"Age of the oldest transaction that holds back readers of the outbox.")
)

// descs lists all metrics.
var descs []*prometheus.Desc

func desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("prescient_"+name, help, labels, nil)
	descs = append(descs, d)
	return d
}

// Describe describes every metric.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descs {
		ch <- d
	}
}

// Collect returns what was counted, and what the database returned at the last read.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counter := emitter(ch, prometheus.CounterValue)
	for name, j := range m.jobs {
		for outcome, n := range j.rows {
			counter(checks, float64(n), name, string(outcome))
		}
		ch <- j.lateness.metric(lateness, name)
		ch <- j.duration.metric(duration, name)
		if j.sla > 0 {
			counter(slaBroken, float64(j.late), name)
			emitter(ch, prometheus.GaugeValue)(sla, j.sla.Seconds(), name)
		}
	}
	for kind, r := range m.runs {
		r.collect(ch, string(kind))
	}
	counter(yielded, float64(m.yielded))
	counter(abandoned, float64(m.abandoned))
	counter(takenOver, float64(m.takenOver))
	counter(leasesLost, float64(m.lost))
	counter(published, float64(m.published))
	counter(refused, float64(m.failed))
	m.ledger.collect(emitter(ch, prometheus.GaugeValue))
}

func (r *runs) collect(ch chan<- prometheus.Metric, kind string) {
	counter, gauge := emitter(ch, prometheus.CounterValue), emitter(ch, prometheus.GaugeValue)
	for result, n := range r.ended {
		counter(ran, float64(n), kind, result)
	}
	ch <- r.duration.metric(runTime, kind)
	if r.duration.count > 0 {
		gauge(lastTook, r.took.Seconds(), kind)
	}
	for desc, at := range map[*prometheus.Desc]time.Time{lastEnd: r.last, lastGood: r.success} {
		if !at.IsZero() {
			gauge(desc, unix(at), kind)
		}
	}
}

func unix(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

// emitter returns a function that sends values of one type.
func emitter(
	ch chan<- prometheus.Metric, as prometheus.ValueType,
) func(d *prometheus.Desc, value float64, labels ...string) {
	return func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, as, value, labels...)
	}
}
