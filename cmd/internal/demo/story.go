package demo

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
)

func (t *teller) monday(ctx context.Context) error {
	t.printf("%s\n", t.paint(bold, "Two days of a shop, in virtual time, on a real PostgreSQL"))
	t.printf("\nThe rule: an order that is not shipped %s after it was placed raises a primary alert,\n",
		hours(primary))
	t.printf("and %s after it a final one. Nothing polls: every order brings its own check along.\n", hours(final))

	t.chapter("Monday: orders come in")
	t.word("check", "a row written with the order, in one transaction: look at it not before ...")
	t.word("slot", "an instant on the grid, every 15 minutes; what is asked for is rounded up to one")
	o := t.orders[0]
	t.printf("  order %d   placed %s:%s, check asked for %s, due in slot %s\n", o.id,
		day(o.placed), o.placed.Format("05"),
		o.placed.Add(primary).Format("15:04:05"), t.Ledger.Grid().Ceil(o.placed.Add(primary)).Format("15:04"))

	t.printf("\n  Cron starts %s at every slot. It reads only the rows of its slot.\n",
		t.paint(bold, "prescient run"))
	sum, n, err := t.pass(ctx, start, outage)
	if err != nil {
		return err
	}
	if err := t.printAlerts(ctx); err != nil {
		return err
	}
	t.printf("  By %s: %d slots run, %d checks done; %d were the last of their order, %d asked for another.\n",
		day(outage.Add(-t.Ledger.Grid().Width())), n, sum.Checked, sum.Finished, sum.Rescheduled)
	return nil
}

func (t *teller) outage(ctx context.Context) error {
	last := t.Ledger.Grid().Add(outage, outageSlots-1)
	t.chapter(fmt.Sprintf("Tuesday, %s to %s: no runner runs the slots", outage.Format("15:04"), last.Format("15:04")))
	t.word("ledger", "one row for every slot that was run, an empty one too")
	t.word("missed", "a slot without such a row: a gap cannot hide")
	after := t.Ledger.Grid().Next(last)
	for slot := range t.Ledger.Grid().Between(outage, t.Ledger.Grid().Next(after)) {
		if err := t.apply(ctx, slot); err != nil { // the shop works on during the outage
			return err
		}
	}
	t.Set(after)
	status, err := t.Ledger.Status(ctx, time.Time{})
	if err != nil {
		return err
	}
	t.printf("\n  At %s %s finds it, and with --check exits 3:\n", after.Format("15:04"),
		t.paint(bold, "prescient status"))
	for _, trouble := range status.Trouble {
		t.facts.Missed = append(t.facts.Missed, trouble.Slot)
		t.printf("  %s  %s  %s\n", day(trouble.Slot), t.paint(red, string(trouble.State)),
			trouble.Waiting().Of("check", "checks")+" overdue")
	}
	return nil
}

func (t *teller) catchUp(ctx context.Context) error {
	t.chapter("The repair")
	t.word("catch-up", "runs what was missed, the oldest slot first; the job is told, and how late it is")
	t.printf("\n  %s, in the same minute:\n", t.paint(bold, "prescient catch-up"))
	caught, err := t.Runner.CatchUp(ctx, slots.CatchUp{})
	if err != nil {
		return err
	}
	for _, r := range caught.Results {
		t.facts.Caught += r.Checked
		t.printf("  %s  %s  %s\n", day(r.Slot), t.paint(green, "caught up"), spoken.Count(r.Checked, "check", "checks"))
	}
	if caught.Empty > 0 {
		t.printf("  and %s that had nothing to do\n", spoken.Count(caught.Empty, "slot", "slots"))
	}
	if err := t.printAlerts(ctx); err != nil {
		return err
	}
	status, err := t.Ledger.Status(ctx, time.Time{})
	if err != nil {
		return err
	}
	t.printf("  Missed slots now: %s\n", t.paint(green, strconv.Itoa(len(status.Trouble))))
	return nil
}

func (t *teller) close(ctx context.Context) error {
	t.chapter("Tuesday, midnight: the books")
	sum, n, err := t.pass(ctx, t.Ledger.Grid().Add(outage, outageSlots), end.Add(1))
	if err != nil {
		return err
	}
	if err := t.printAlerts(ctx); err != nil {
		return err
	}
	t.printf("  %d more slots run, %d checks done.\n\n", n, sum.Checked)
	t.word("outcome", fmt.Sprintf("how a row ended; done is one of %d, and no row ends without", len(jobs.Outcomes())))
	if err := t.audit(ctx); err != nil {
		return err
	}
	sign, colour := "=", green
	if t.facts.Orders != t.facts.Waiting+t.facts.Ended {
		sign, colour = "is not", red
	}
	t.printf("  Committed means kept: %s\n", t.paint(colour,
		fmt.Sprintf("%d orders placed %s %d in history + %d waiting",
			t.facts.Orders, sign, t.facts.Ended, t.facts.Waiting)))
	t.printf("  Alerts raised: %d primary, %d final, each of them once; %d by checks that were caught up.\n",
		t.facts.Primary, t.facts.Final, t.facts.Told)
	t.printf("  Slots missed, left open or with stragglers: %d\n", t.facts.Trouble)
	return t.messages(ctx)
}

// audit counts from the database at the end, and prints history by outcome.
func (t *teller) audit(ctx context.Context) error {
	if err := t.db.GetContext(ctx, &t.facts.Orders, t.shop.sql(`select count(*) from shop.orders`)); err != nil {
		return err
	}
	waiting, err := seq.Collect(admin.New(t.Client).List(ctx, t.db, admin.Filter{}))
	if err != nil {
		return err
	}
	stats, err := admin.New(t.Client).Stats(ctx, t.db, time.Time{}, time.Time{})
	if err != nil {
		return err
	}
	status, err := t.Ledger.Status(ctx, time.Time{})
	if err != nil {
		return err
	}
	t.facts.Waiting, t.facts.Trouble = len(waiting), len(status.Trouble)
	for _, s := range stats {
		t.facts.Ended += int(s.Count)
		t.printf("  history   %s  %s  %d orders, checked with a median lateness of %s\n", s.JobExec,
			s.Outcome, s.Count, time.Duration(s.LatenessP50))
	}
	return nil
}

// printAlerts prints the first of the new alerts, and how many more there are.
func (t *teller) printAlerts(ctx context.Context) error {
	alerts, err := t.fresh(ctx)
	if err != nil {
		return err
	}
	for i, a := range alerts {
		note := ""
		if a.Alert == "primary" {
			t.facts.Primary++
		} else {
			t.facts.Final++
		}
		if a.CaughtUp {
			t.facts.Told++
			note = fmt.Sprintf("  (caught up, %.0f minutes late)", a.Late.Minutes())
		}
		if i < listed {
			t.printf("  %s  %s  order %d is not shipped%s\n", day(a.Slot),
				t.paint(yellow, fmt.Sprintf("%-7s", a.Alert)), a.Order, note)
		}
	}
	if more := len(alerts) - listed; more > 0 {
		t.printf("  %s\n", t.paint(dim, fmt.Sprintf("... and %s",
			spoken.Count(int64(more), "more alert", "more alerts"))))
	}
	return nil
}

func (t *teller) next(name string) {
	t.chapter("Try next")
	for _, line := range [][2]string{
		{name + " status", "the ledger of your own database; the demo left nothing in it"},
		{name + " rules --help", "the same question about a table of yours, without code"},
		{name + " rules test --file FILE", "what a rule would have done in the past of your table"},
	} {
		t.printf("  %s  %s\n", t.paint(bold, fmt.Sprintf("%-45s", line[0])), line[1])
	}
}

func hours(d time.Duration) string { return fmt.Sprintf("%.0f hours", d.Hours()) }
