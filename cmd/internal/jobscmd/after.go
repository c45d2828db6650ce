package jobscmd

import (
	"context"
	"iter"

	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs/admin"
)

// position is a flag that takes the place in a list behind which the list goes on.
type position struct{ admin.Position }

// Type is the placeholder in help.
func (p *position) Type() string { return "POSITION" }

// String is empty for the beginning of a list.
func (p *position) String() string {
	if p.IsZero() {
		return ""
	}
	return p.Position.String()
}

// Set parses a position.
func (p *position) Set(text string) (err error) {
	p.Position, err = admin.ParsePosition(text)
	return err
}

func afterVar(fs *pflag.FlagSet, p *position) {
	fs.Var(p, "after", "begin behind this one, which the log of the page before names")
}

// readEach reads a list behind a position, up to a limit; 0: to its end. If there are more elements,
// it logs how to go on, so that a reader gets each element once.
func readEach[T any](
	ctx context.Context, f *factory.Factory, limit cli.Count, after position,
	read func(after admin.Position, limit int) ([]T, admin.Position, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var next admin.Position
		n := 0
		page := func(at admin.Position, size int) (rows []T, _ admin.Position, err error) {
			rows, next, err = read(at, size)
			return rows, next, err
		}
		for v, err := range seq.Pages(after.Position, int(limit), page) {
			if !yield(v, err) || err != nil {
				return
			}
			n++
		}
		if limit > 0 && n == int(limit) && !next.IsZero() {
			output.More(ctx, f.Log(), n, next.String())
		}
	}
}
