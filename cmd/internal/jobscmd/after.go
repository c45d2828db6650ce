package jobscmd

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
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

// readList reads a list behind a position, up to a limit; 0: to its end. If there are more elements,
// it logs how to go on, so that a reader gets each element once.
func readList[T any](
	ctx context.Context, f *factory.Factory, limit cli.Count, after position,
	read func(after admin.Position, limit int) ([]T, admin.Position, error),
) (list []T, err error) {
	const most = 1000 // of a page
	for next := after.Position; ; {
		n := most
		if limit > 0 {
			n = min(n, int(limit)-len(list))
		}
		page, following, err := read(next, n)
		list = append(list, page...)
		switch {
		case err != nil || following.IsZero():
			return list, err
		case limit > 0 && len(list) == int(limit):
			output.More(ctx, f.Log(), len(list), "go on with --after "+following.String()+", or give a larger --limit")
			return list, nil
		}
		next = following
	}
}
