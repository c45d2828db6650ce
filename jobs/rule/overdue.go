package rule

import (
	"fmt"
	"strconv"
	"strings"
)

// maxSpread bounds the slots of OverdueSpread.
const maxSpread = 10_000

// String returns "fire", "skip", or such as "spread 8". Empty for the zero value.
func (o Overdue) String() string {
	if o.Policy == OverdueSpread {
		return fmt.Sprintf("%s %d", o.Policy, o.Slots)
	}
	return string(o.Policy)
}

// MarshalText is String.
func (o Overdue) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the text of String.
func (o *Overdue) UnmarshalText(text []byte) error {
	policy, number, _ := strings.Cut(string(text), " ")
	*o = Overdue{Policy: OverduePolicy(policy)}
	var err error
	if number != "" || o.Policy == OverdueSpread {
		o.Slots, err = strconv.Atoi(strings.TrimSpace(number))
	}
	spread := o.Policy == OverdueSpread && o.Slots >= 1 && o.Slots <= maxSpread
	if err != nil || !spread && *o != (Overdue{Policy: OverdueFire}) && *o != (Overdue{Policy: OverdueSkip}) {
		return fmt.Errorf("%q: want fire, skip, or spread and a number of slots up to %d, such as spread 8", text, maxSpread)
	}
	return nil
}
