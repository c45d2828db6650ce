package advise

import (
	"math"
	"math/rand/v2"
	"testing"
)

const hour = 3600

// Rows are finished at random. Only the two checks around that instant are known, or the last check
// before it.
func TestACurveIsWhatRowsHaveDoneThoughNobodySawWhen(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(r *rand.Rand) float64{
		"soon, and then ever slower": func(r *rand.Rand) float64 { return r.ExpFloat64() * 50 * hour },
		"all at one age":             func(r *rand.Rand) float64 { return 70*hour + r.Float64()*hour },
		"early or late": func(r *rand.Rand) float64 {
			return float64(r.IntN(2))*100*hour + r.Float64()*20*hour
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(1, 2))
			truth := make([]float64, 20_000)
			for i := range truth {
				truth[i] = at(rnd)
			}
			var known []interval
			for range 4000 {
				finished, from, to := at(rnd), int64(-1), int64(forever)
				for look := rnd.Float64() * 10 * hour; look < 150*hour; look += (1 + 20*rnd.Float64()) * hour {
					if finished <= look {
						to = int64(look)
						break
					}
					from = int64(look)
				}
				known = append(known, interval{from: from, to: to})
			}
			c := fit(known)
			for age := 10.0; age < 150; age += 5 {
				n := 0
				for _, f := range truth {
					if f <= age*hour {
						n++
					}
				}
				want := float64(n) / float64(len(truth))
				// Between checks the curve rises linearly. If all rows finish at once, it is off by
				// as much as checks are apart.
				if got := c.At(age * hour); math.Abs(got-want) > 0.06 && math.Abs(age-70.5) > 10 {
					t.Errorf("%.3f are finished after %.0f h, want %.3f", got, age, want)
				}
			}
		})
	}
}

func TestWhatIsOpenAtItsLastLookIsNotFinishedThere(t *testing.T) {
	t.Parallel()
	var known []interval
	for range 50 { // half of the rows that are open after 20 hours are finished by 30, as far as is known
		known = append(known, interval{from: 9 * hour, to: 10 * hour}, interval{from: 29 * hour, to: 30 * hour},
			interval{from: 20 * hour, to: forever}, interval{from: 30 * hour, to: forever})
	}
	c := fit(known)
	for age, want := range map[float64]float64{10: 0.25, 28: 0.25, 30: 0.25 + 0.75/2, 100: 0.25 + 0.75/2} {
		if got := c.At(age * hour); math.Abs(got-want) > 0.01 {
			t.Errorf("%.3f are finished after %.0f h, want %.3f", got, age, want)
		}
	}
}

func TestTooLittleHistoryMakesNoCurve(t *testing.T) {
	t.Parallel()
	var known []interval
	for range MinRows - 1 {
		known = append(known, interval{from: 0, to: hour})
	}
	if c := fit(append(known, interval{from: 0, to: forever})); len(c.Ages) > 0 {
		t.Errorf("%+v", c)
	}
	if c := fit(append(known, interval{from: 0, to: hour})); len(c.Ages) != 2 {
		t.Errorf("%+v", c)
	}
}
