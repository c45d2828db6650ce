// Package each is the loop over the stores that a command works on: it runs the command in each of
// them, and joins their results. It knows no command.
package each

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/advice"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/multistore"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Help adds to the help of a command whose work is done by Store.
func Help(c *cobra.Command) *cobra.Command {
	c.Long += "\n\nIf the settings list stores, it works on all of them concurrently, or on those of --store."
	return c
}

// Store calls fn for each store that the command works on, concurrently, with a Factory for that
// store alone. The output comes in the order of the settings. The worst of the exit codes is that of
// the command. A store that the command works on alone prints as it goes.
//
// opts are how the databases are connected to, since stores share pools.
func Store(
	ctx context.Context, f *factory.Factory, fn func(ctx context.Context, f *factory.Factory) error, opts ...pgsql.Option,
) error {
	if f.One() == nil {
		return fn(ctx, f)
	}
	parts, err := visit(ctx, f, fn, opts...)
	if err != nil {
		return err
	}
	return join(f, parts)
}

// visit calls fn for each store of several, and returns the results in the order of the settings.
func visit(
	ctx context.Context, f *factory.Factory, fn func(ctx context.Context, f *factory.Factory) error, opts ...pgsql.Option,
) (_ []*part, err error) {
	pools := database.NewWatchedPools(f, opts...)
	defer func() { err = errors.Join(err, pools.Close()) }()
	return multistore.Visit(ctx, pools, func(ctx context.Context, s multistore.Store) *part {
		p := &part{store: s.Name, err: s.Err}
		if p.err != nil {
			p.end(ctx, f)
			return p
		}
		one := f.Of(s, pools)
		one.Out, one.Answer = &p.text, &p.answer
		p.err = fn(ctx, one)
		p.end(ctx, one)
		return p
	}), nil
}

// part is the result of one store.
type part struct {
	store  string
	answer any // printed as JSON
	text   bytes.Buffer
	err    error
	what   string // the text of err, with what to do
}

// end completes the part of a store when the command has ended there.
func (p *part) end(ctx context.Context, f *factory.Factory) {
	if ctx.Err() != nil && errors.Is(p.err, context.Canceled) && !errors.Is(p.err, slots.ErrAbandoned) {
		p.err = &exit.Error{Code: exit.Stopped, Err: p.err} // before it had begun
	}
	if silent, ok := errors.AsType[*exit.Error](p.err); p.err != nil && (!ok || silent.Err != nil) {
		p.what = f.Named(p.err.Error() + advice.For(ctx, f, p.err))
	}
}

// View is the result of one store of a command that works on several, as JSON.
type View struct {
	Store  string `json:"store"`
	Error  string `json:"error"`  // empty: none
	Result any    `json:"result"` // what the command prints for a single store; null: nothing
}

// join prints the results of the stores, and returns an error with all that went wrong and the
// worst exit code.
func join(f *factory.Factory, parts []*part) error {
	views := []View{}
	codes := []exit.Code{exit.Done} // of a shard that has no store, too
	var texts []string
	for _, p := range parts {
		views = append(views, View{p.store, p.what, p.answer})
		codes = append(codes, exit.CodeOf(p.err))
		if p.what != "" {
			texts = append(texts, "store "+p.store+": "+p.what)
		}
	}
	if err := f.Print(views, func() error { return printParts(f, parts) }); err != nil {
		return err
	}
	code := slices.MinFunc(codes, func(a, b exit.Code) int {
		return cmp.Compare(slices.Index(worst, a), slices.Index(worst, b))
	})
	if code == exit.Done {
		return nil
	}
	err := &exit.Error{Code: code}
	if len(texts) > 0 {
		err.Err = errors.New(strings.Join(texts, "\n"))
	}
	return err
}

// worst is the order in which exit codes win among several stores: the worst comes first.
var worst = []exit.Code{exit.Failure, exit.Stopped, exit.Usage, exit.Found, exit.Done}

// printParts prints the output of the stores, each below its name.
func printParts(f *factory.Factory, parts []*part) error {
	var err error
	first := true
	for _, p := range parts {
		if p.text.Len() == 0 {
			continue
		}
		if !first {
			err = f.Lines("")
		}
		first = false
		err = errors.Join(err, f.Lines("store "+p.store+":"), f.Lines(strings.TrimSuffix(p.text.String(), "\n")))
	}
	return err
}
