package duration

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestADurationIsReadWithDays(t *testing.T) {
	tests := map[string]time.Duration{
		"0":                          0,
		"0s":                         0,
		"0d":                         0,
		"90s":                        90 * time.Second,
		"1.5h":                       90 * time.Minute,
		"90d":                        2160 * time.Hour,
		"1d12h":                      36 * time.Hour,
		"1d1h1m1s1ms":                25*time.Hour + time.Minute + time.Second + time.Millisecond,
		"106751d":                    106751 * day,
		"106751d23h47m16.854775807s": math.MaxInt64,
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			got, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestWhatIsNoDurationIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "d", "h", "90", "soon", "-1h", "+1h", "-1d", "+1d", "1d-2h", "1d+2h", "1.5d", "12h1d", "1d1d", "1d 12h", " 1d", "1d5", "5y",
		"106752d", "106751d23h47m16.854775808s", "106751d2562047h", "18446744073709551616d", "2562048h",
	} {
		t.Run(text, func(t *testing.T) {
			got, err := Parse(text)
			if err == nil || !strings.Contains(err.Error(), "such as 90s") || got != 0 {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestDurationsAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", 15 * time.Minute: "15m", 24 * time.Hour: "24h", 1500 * time.Millisecond: "1.5s",
	} {
		if got := Format(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestAFlagTakesDays(t *testing.T) {
	fs := pflag.NewFlagSet("prune", pflag.ContinueOnError)
	keep := time.Second
	Var(fs, &keep, "keep", 0, "how long to keep")
	if keep != 0 {
		t.Errorf("the default is %v", keep)
	}
	if err := fs.Parse([]string{"--keep=90d"}); err != nil || keep != 90*day {
		t.Errorf("got %v, %v", keep, err)
	}
	if err := fs.Parse([]string{"--keep=90"}); err == nil || !strings.Contains(err.Error(), "--keep") || keep != 90*day {
		t.Errorf("got %v, %v", keep, err)
	}
}

func FuzzADurationReadsBackAsItIsShown(f *testing.F) {
	for _, d := range []int64{0, 1, int64(time.Minute), int64(time.Hour), int64(10 * time.Minute), int64(20 * time.Hour), math.MaxInt64} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := time.Duration(n &^ math.MinInt64)
		got, err := Parse(Format(d))
		if err != nil || got != d {
			t.Errorf("%v is shown as %s and read as %v, %v", d, Format(d), got, err)
		}
	})
}

func FuzzADurationIsNeverNegative(f *testing.F) {
	f.Add("1d12h")
	f.Add("106751d2562047h")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if got < 0 || err != nil && got != 0 {
			t.Errorf("%q is %v, %v", text, got, err)
		}
		if want, plain := time.ParseDuration(text); err == nil && plain == nil && want != got {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
		if err == nil && strings.HasPrefix(text, "-") {
			t.Errorf("%q is accepted", text)
		}
	})
}
