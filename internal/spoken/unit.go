package spoken

import (
	"fmt"
	"time"
)

// shortest is the shortest duration of an option. No option means less: its clocks and timers are not that exact.
const shortest = time.Millisecond

// Unitless returns why a duration of an option is a number whose unit was forgotten. Empty: it is not.
func Unitless(d time.Duration) string {
	if d <= 0 || d >= shortest {
		return ""
	}
	return fmt.Sprintf("%s is less than %s. A number without a unit counts nanoseconds: write %d*time.Second", d, shortest,
		d.Nanoseconds())
}
