package jobs

import "time"

// maxLearnBy is how many bytes the name of a field of the payload may have.
const maxLearnBy = 200

// Learned lets history choose when a row is looked at again. What the function returns is then the latest instant, such as that
// of its next alert: nothing comes later than it asked for. Between min and max after a check, the row is looked at earlier,
// when so many of the rows like it that were still open at this age have ended that a look is worth it; see package slots/learn.
//
// Such a look is a check like any other, so a function tells by job.Slot, and not by how often it was called, whether its alert is
// due; where it is not, it returns the same instant again. Looks count as checks, and take no more than half of MaxChecks, and never the last one: the
// fewer are left, the more rows must have ended before the next one, so that of a thousand rows one runs out of them.
//
// Without history of the job, or of enough of it, what the function returned is when it is checked. The curve of the job is
// from its newest rows of history, and is made anew once an hour by a run that has rows of it. Default: not learned.
func Learned(minimum, maximum time.Duration) Option {
	return func(d *Definition) {
		d.must(minimum > 0 && maximum >= minimum, "Learned(%s, %s): want a minimum above 0, and a maximum that is no shorter", minimum, maximum)
		d.LearnMin, d.LearnMax = minimum, maximum
	}
}

// LearnedBy has Learned tell rows apart by a field at the top level of their payload, such as "carrier" or "country": a text, a number
// or a boolean. The 50 values with the most rows have curves of their own; the others, and those of which there is little, go
// by that of the job.
func LearnedBy(field string) Option {
	return func(d *Definition) {
		err := checkName("field", field, 1, maxLearnBy)
		d.must(err == nil, "LearnedBy(%q): %v", field, err)
		d.LearnBy = field
	}
}

// Learns tells whether history chooses when rows are looked at again.
func (d *Definition) Learns() bool { return d.LearnMax > 0 }
