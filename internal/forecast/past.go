package forecast

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
)

// ran is a slot of the past that is done.
type ran struct {
	slot    time.Time
	kind    slots.Kind
	took    time.Duration
	delay   time.Duration // from the slot to its opening
	runners int           // 0: unknown
	workers int           // of all runners together
	rows    map[string]float64
	spent   map[string]time.Duration // run time of the checks
	parts   float64                  // its width, in slots of the grid
}

// capacity returns the capacity that ran the slot; the zero value if it is unknown.
func (r *ran) capacity() capacity {
	if r.runners == 0 {
		return capacity{}
	}
	return capacity{float64(r.runners), float64(r.workers) / float64(r.runners)}
}

// past holds the slots of the past from the ledger.
type past struct {
	bySlot map[int64]map[string]float64 // rows of jobs, by slot of the grid
	list   []*ran                       // oldest first
}

// newPast puts the rows of the past into slots of a grid. Slots before since may have had another
// width.
func newPast(list []*ran, g grid.Grid, since time.Time) past {
	p := past{bySlot: map[int64]map[string]float64{}, list: list}
	for i, r := range list {
		r.parts = 1
		if r.slot.Before(since) {
			r.parts = distance(list, i, g.Width()).Seconds() / g.Width().Seconds()
		}
		for at, end := g.Ceil(r.slot), r.slot.Add(-time.Duration(r.parts*float64(g.Width()))); at.After(end); at = g.Add(at,
			-1) {
			rows := p.bySlot[at.Unix()]
			if rows == nil {
				rows = map[string]float64{}
				p.bySlot[at.Unix()] = rows
			}
			for job, n := range r.rows {
				rows[job] += n / max(r.parts, 1)
			}
			if r.parts <= 1 {
				break
			}
		}
	}
	return p
}

// distance returns the distance from a slot to the nearest neighbour, which was the width then. It
// returns otherwise if there is no neighbour.
func distance(list []*ran, i int, otherwise time.Duration) time.Duration {
	nearest := time.Duration(math.MaxInt64)
	if i > 0 {
		nearest = list[i].slot.Sub(list[i-1].slot)
	}
	if i+1 < len(list) {
		nearest = min(nearest, list[i+1].slot.Sub(list[i].slot))
	}
	if nearest <= 0 || nearest > day {
		return otherwise
	}
	return nearest
}

// last returns the last slot of the past, or the zero time if there is none.
func (p past) last() time.Time {
	if len(p.list) == 0 {
		return time.Time{}
	}
	return p.list[len(p.list)-1].slot
}

const (
	day = 24 * time.Hour
	// lookBack is how many days of the past count.
	lookBack = 14
)

// seasonality says how well the days of a job predict each other.
type seasonality struct {
	weights [lookBack + 1]float64 // weight of a day, by how many days ago it was
	began   time.Time             // the first slot with rows of the job
}

// seasonalities learns, for each job, how well days predict each other. The less the rows of days
// at some distance have differed, the more a day at that distance counts. So a job with a weekly
// pattern finds the same day of the week.
func (p past) seasonalities() map[string]seasonality {
	var totals [2*lookBack + 1]map[string]float64 // by how many days ago
	began := map[string]time.Time{}
	for _, r := range p.list {
		ago := int(p.last().Sub(r.slot) / day)
		if ago >= len(totals) {
			continue
		}
		if totals[ago] == nil {
			totals[ago] = map[string]float64{}
		}
		for job, n := range r.rows {
			totals[ago][job] += n
			if _, known := began[job]; !known && n > 0 {
				began[job] = r.slot
			}
		}
	}
	seasons := map[string]seasonality{}
	for job, at := range began {
		seasons[job] = newSeasonality(at, func(ago int) (float64, bool) {
			if ago >= len(totals) || totals[ago] == nil {
				return 0, false
			}
			return totals[ago][job], true
		})
	}
	return seasons
}

// newSeasonality learns from the totals of days. Distances without data are assumed to differ as
// consecutive days do. Distances of whole weeks are assumed to differ half as much.
func newSeasonality(began time.Time, total func(ago int) (float64, bool)) seasonality {
	h := seasonality{began: began}
	next, mean := differ(total, 1, 0, 0)
	floor := mean * mean / 400 // a twentieth: no two days count as more alike
	for days := 1; days <= lookBack; days++ {
		assumed := next
		if days%7 == 0 {
			assumed /= 4
		}
		apart, _ := differ(total, days, assumed, 1)
		h.weights[days] = math.Pow(0.9, float64(days)) / (apart + floor + 1)
	}
	return h
}

// differ returns the mean square difference of days at some distance, and the mean of all days. The
// assumed difference counts as much as count observed ones.
func differ(total func(ago int) (float64, bool), days int, assumed, count float64) (square, mean float64) {
	sum, n, all, known := assumed*count, count, 0.0, 0.0
	for ago := 0; ; ago++ {
		now, ok := total(ago)
		if !ok {
			break
		}
		all, known = all+now, known+1
		if before, ok := total(ago + days); ok {
			sum, n = sum+(now-before)*(now-before), n+1
		}
	}
	return ratio(sum, n, 0), ratio(all, known, 0)
}

// usual returns how many rows of a job a slot at this time of day usually has. One burst is no habit: the largest
// number counts no more than twice the second largest. Of a single day, that is true of its slots. If no day has the
// slot, usual returns the median of the last day's slots.
func (p past) usual(job string, slot time.Time, h seasonality) float64 {
	type observed struct{ rows, weight float64 }
	var days []observed
	last := p.last()
	for n := 1; n <= lookBack; n++ {
		at := slot.Add(-time.Duration(n) * day)
		rows, ok := p.bySlot[at.Unix()]
		if ok && !at.After(last) && !at.Before(h.began) {
			days = append(days, observed{rows[job], h.weights[n]})
		}
	}
	if len(days) == 0 {
		return p.median(job)
	}
	slices.SortFunc(days, func(a, b observed) int { return cmp.Compare(b.rows, a.rows) })
	if len(days) == 1 {
		numbers := p.lastDay(job)
		return min(days[0].rows, 2*numbers[max(0, len(numbers)-2)]+confidence)
	}
	days[0].rows = min(days[0].rows, 2*days[1].rows+confidence)
	var sum, weights float64
	for _, d := range days {
		sum, weights = sum+d.weight*d.rows, weights+d.weight
	}
	return ratio(sum, weights, 0)
}

// median returns the median number of rows of a job in the slots of the last day; 0 if these are fewer than three.
func (p past) median(job string) float64 {
	all := p.lastDay(job)
	if len(all) < 3 {
		return 0
	}
	return all[len(all)/2]
}

// lastDay returns the numbers of rows of a job in the slots of the last day, the smallest first.
func (p past) lastDay(job string) (all []float64) {
	for _, r := range p.list {
		if p.last().Sub(r.slot) < day {
			all = append(all, ratio(r.rows[job], r.parts, 0))
		}
	}
	slices.Sort(all)
	return all
}

// short reports whether the past is too short to know what is usual at a time of day.
func (p past) short(now time.Time) bool { return len(p.list) == 0 || now.Sub(p.list[0].slot) < 3*day/2 }

// confidence is the weight of the usual number, in rows, beside the rows that wait already.
const confidence = 50

// rows returns how many rows of a job a slot will have when it is run, while waiting rows wait now.
// It adds the waiting rows that are kept and the rows that come late. The late rows follow from the
// usual number. If more or fewer rows than usual wait already, they count, too.
func (p past) rows(job string, h seasonality, slot time.Time, part rates, waiting float64) float64 {
	waiting *= part.kept
	usual := p.usual(job, slot, h)
	if part.late == 0 || usual == 0 {
		return waiting
	}
	level := (confidence + waiting) / (confidence + usual*(1-part.late))
	return waiting + part.late*usual*min(max(level, 0.5), 2)
}
