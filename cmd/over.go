package cmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/multistore"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// findAgain is how often serve and daemon look for stores that are new, or that they could not use.
var findAgain = 30 * time.Second

// overAll adds to the help of a command whose work is done by over.
func overAll(c *cobra.Command) *cobra.Command {
	c.Long += "\n\nWhere the settings list stores it works on all of them, or on those of --store, beside each other."
	return c
}

// over calls fn for the database of the settings or, if the settings list stores, for each of them
// concurrently, with an App for that store alone. The output comes in the order of the stores. The
// worst of the exit codes is that of the command.
//
// opts are how the databases are connected to, since stores share pools.
func (a *App) over(ctx context.Context, fn func(ctx context.Context, a *App) error, opts ...pgsql.Option) error {
	if !a.scope.Many {
		return fn(ctx, a)
	}
	parts, err := a.visitAll(ctx, fn, opts...)
	if err != nil {
		return err
	}
	return a.join(parts)
}

// visitAll calls fn for each store, and returns the results in the order of the settings.
func (a *App) visitAll(ctx context.Context, fn func(ctx context.Context, a *App) error, opts ...pgsql.Option) (_ []*part, err error) {
	pools := a.newPools(a.watchLocks, opts...)
	defer func() { err = errors.Join(err, pools.Close()) }()
	return multistore.Visit(ctx, pools, func(ctx context.Context, s multistore.Store, first bool) *part {
		p := &part{store: s.Name, err: s.Err}
		if p.err == nil {
			one := a.of(s, pools)
			one.Out, one.to.Answer, one.scope.Repeats = &p.text, &p.answer, !first
			p.err = fn(ctx, one)
			p.end(ctx, one)
		} else {
			p.end(ctx, a)
		}
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
func (p *part) end(ctx context.Context, a *App) {
	if ctx.Err() != nil && errors.Is(p.err, context.Canceled) && !errors.Is(p.err, slots.ErrAbandoned) {
		p.err = &ExitError{Code: Stopped, Err: p.err} // before it had begun
	}
	if exit, ok := errors.AsType[*ExitError](p.err); p.err != nil && (!ok || exit.Err != nil) {
		p.what = a.named(p.err.Error() + hint(p.err) + a.refusal(p.err))
	}
}

// newPools returns the pools of a command that works on several stores. watch is started for each
// of them; it may be nil.
func (a *App) newPools(watch func(ctx context.Context, db *sqlx.DB), opts ...pgsql.Option) *multistore.Pools {
	return multistore.New(multistore.Config{
		List: a.stores(), Options: opts, Open: openURL, Watch: watch,
		Connect: func(ctx context.Context, p *multistore.Pools, s multistore.Store) (*sqlx.DB, error) {
			return a.of(s, p).connect(ctx)
		},
	})
}

// stores returns the stores of the settings.
func (a *App) stores() multistore.List { return multistore.List{Settings: a.Config(), Scope: a.scope} }

// of returns an App for one store of several.
func (a *App) of(s multistore.Store, pools *multistore.Pools) *App {
	one := *a
	one.enter(s)
	one.scope, one.log = a.scope.One(s.Name, pools), a.log.With("store", s.Name)
	return &one
}

// enter makes a store the one that a works on.
func (a *App) enter(s multistore.Store) {
	a.scope.Store = s.Name
	a.config.Config.Database = s.Database
	a.where += " --store " + s.Name
}

// chooseStores finds out whether a command works on one store or on several.
func (a *App) chooseStores(c *cobra.Command) error {
	a.scope = multistore.Scope{Chosen: a.scope.Chosen, Sharded: c.Flags().Lookup("shard") != nil}
	elsewhere := c.Flags().Changed("schema") || c.Flags().Changed("database-url")
	one, many, err := a.stores().Choose(elsewhere, c.Annotations[ofStores] != "")
	if a.scope.Many = many; err == nil && one.Name != "" {
		a.enter(one)
	}
	return err
}

// storeView is the result of one store of a command that works on all stores, as JSON.
type storeView struct {
	Store  string `json:"store"`
	Error  string `json:"error"`  // empty: none
	Result any    `json:"result"` // what the command prints for a single store; null: nothing
}

// join prints the results of the stores, and returns an error with all that went wrong and the
// worst exit code.
func (a *App) join(parts []*part) error {
	views := []storeView{}
	codes := []Code{Done} // of a shard that has no store, too
	var texts []string
	for _, p := range parts {
		views = append(views, storeView{p.store, p.what, p.answer})
		codes = append(codes, codeOf(p.err))
		if p.what != "" {
			texts = append(texts, "store "+p.store+": "+p.what)
		}
	}
	if err := a.print(views, func() error { return printParts(a, parts) }); err != nil {
		return err
	}
	code := slices.MinFunc(codes, func(a, b Code) int { return cmp.Compare(slices.Index(worst, a), slices.Index(worst, b)) })
	if code == Done {
		return nil
	}
	exit := &ExitError{Code: code}
	if len(texts) > 0 {
		exit.Err = errors.New(strings.Join(texts, "\n"))
	}
	return exit
}

// worst is the order in which exit codes win among several stores: the worst comes first.
var worst = []Code{Failure, Stopped, Usage, Found, Done}

// printParts prints the output of the stores, each below its name.
func printParts(a *App, parts []*part) error {
	var err error
	first := true
	for _, p := range parts {
		if p.text.Len() == 0 {
			continue
		}
		if !first {
			err = a.lines("")
		}
		first = false
		err = errors.Join(err, a.lines("store "+p.store+":"), a.lines(strings.TrimSuffix(p.text.String(), "\n")))
	}
	return err
}
