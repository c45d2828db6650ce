package advise

import (
	"database/sql"
	"testing"
	"time"
)

func TestAdviceOfRowsThatWereNeverToBeLookedAt(t *testing.T) {
	t.Parallel()
	const never = 7973 * 365 * 24 * hour // from 2026 to 9999
	var rows []row
	for i := range int64(100) {
		rows = append(rows, row{job: "order.unshipped", finished: sql.NullInt64{Int64: i*hour - never, Valid: true}, waited: never})
	}
	for i := range int64(100) { // and were finished after all
		rows = append(rows, row{
			job: "order.unshipped", open: sql.NullInt64{Int64: never, Valid: true}, finished: sql.NullInt64{Int64: never + i*hour, Valid: true},
			waited: hour, checks: 100, vain: 99,
		})
	}
	a := advise(curves("order.unshipped", rows)[0], rows, 900)
	first, last := time.Duration(a.Points[0].Age), time.Duration(a.Points[len(a.Points)-1].Age)
	if first < 0 || first > 100*hour*time.Second || last < 290*365*24*time.Hour {
		t.Errorf("ages from %s to %s", first, last)
	}
	for i, p := range a.Points[1:] {
		if p.Age < a.Points[i].Age {
			t.Errorf("%s comes after %s", p.Age, a.Points[i].Age)
		}
	}
	if time.Duration(a.Past.First) < 290*365*24*time.Hour || a.Past.Delay < 0 {
		t.Errorf("%+v", a.Past)
	}
	for _, plan := range []*Plan{a.Halved, a.Fixed} {
		for _, next := range plan.Next {
			if next < 0 {
				t.Errorf("%+v", plan)
			}
		}
	}
}

// Three of four rows are finished in the first hour, then none for a day, and then the last ones.
func TestAdviceKeepsTheEndOfATimeInWhichNothingIsFinished(t *testing.T) {
	t.Parallel()
	c := &Curve{Ages: []int64{hour, 12 * hour, 24 * hour, 25 * hour}, Finished: []float64{0.75, 0.75, 0.75, 1}}
	a := advise(c, []row{{finished: sql.NullInt64{Int64: hour, Valid: true}, checks: 1}}, 900)
	for age, want := range map[time.Duration]float64{time.Hour: 0.25, 12 * time.Hour: 0.25, 24 * time.Hour: 0.25, 25 * time.Hour: 0} {
		if got := a.OpenAt(age); got != want {
			t.Errorf("%.2f are open after %s, want %.2f", got, age, want)
		}
	}
}
