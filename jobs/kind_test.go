package jobs_test

import (
	stdcmp "cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
)

type cart struct {
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
	Reminded int    `json:"reminded,omitempty"`
}

var (
	carts = jobs.Kind[cart]{Name: "cart.abandoned"}
	// cents is of a time after one in which the total was a text.
	cents = jobs.Kind[cart]{Name: "cart.abandoned", Version: 3, Upgrade: func(version int, payload json.RawMessage) (cart, error) {
		if version != 1 {
			return cart{}, errors.New("nobody wrote that")
		}
		return cart{Customer: "of version 1", Cents: len(payload)}, nil
	}}
)

// call calls a function of one row as a run does.
func call(t *testing.T, register func(r *jobs.Registry), payload string) (jobs.Result, error) {
	t.Helper()
	registry := jobs.NewRegistry()
	register(registry)
	d, _ := registry.Lookup("cart.abandoned")
	job := jobs.FutureJob{JobExec: d.Name, EntityName: "cart", EntityKey: "7", Payload: json.RawMessage(payload)}
	results, err := d.Call(reserved.Caller{}, t.Context(), new(sqlx.Tx), []jobs.FutureJob{job})
	if err != nil {
		return jobs.Result{}, err
	}
	return results[0], nil
}

func TestAPayloadGoesInAndWhatTheCheckChangesComesOut(t *testing.T) {
	t.Parallel()
	failed := errors.New("no")
	for _, test := range []struct {
		name, in string
		kind     jobs.Kind[cart]
		do       func(c *cart) (*time.Time, error)
		seen     cart
		out      string
		err      string
	}{
		{name: "nothing changes", in: `{"customer": "Ada", "cents": 5, "else": 1}`, kind: carts, seen: cart{Customer: "Ada", Cents: 5}},
		{
			name: "changed for the next check", in: `{"customer": "Ada"}`, kind: carts, seen: cart{Customer: "Ada"},
			do:  func(c *cart) (*time.Time, error) { c.Reminded++; return new(slot(2)), nil },
			out: `{"customer":"Ada","cents":0,"reminded":1}`,
		},
		{
			name: "there is no next check", in: `{"customer": "Ada"}`, kind: carts, seen: cart{Customer: "Ada"},
			do: func(c *cart) (*time.Time, error) { c.Reminded++; return nil, nil },
		},
		{
			name: "an error", in: `{"customer": "Ada"}`, kind: carts, seen: cart{Customer: "Ada"},
			do: func(c *cart) (*time.Time, error) { c.Reminded++; return new(slot(2)), failed }, err: "no",
		},
		{
			name: "without a payload", kind: carts,
			do:  func(c *cart) (*time.Time, error) { c.Reminded++; return new(slot(2)), nil },
			out: `{"customer":"","cents":0,"reminded":1}`,
		},
		{name: "not of the kind", in: `{"cents": "12.50"}`, kind: carts, err: "decode payload of cart.abandoned on cart 7"},
		{name: "of an earlier version", in: `{"total": "1.50"}`, kind: cents, seen: cart{Customer: "of version 1", Cents: 17}},
		{name: "of an earlier version that is no object", in: `"1.50"`, kind: cents, seen: cart{Customer: "of version 1", Cents: 6}},
		{name: "cannot be converted", in: `{"payload_version": 2}`, kind: cents, err: "nobody wrote that"},
		{
			name: "of this version", in: `{"customer": "Ada", "payload_version": 3}`, kind: cents, seen: cart{Customer: "Ada"},
			do:  func(c *cart) (*time.Time, error) { c.Cents = 9; return new(slot(2)), nil },
			out: `{"cents":9,"customer":"Ada","payload_version":3}`,
		},
		{name: "of a later version", in: `{"payload_version": 4}`, kind: cents, err: "its version is 4 and this binary knows version 3"},
		{name: "of a later version than the first", in: `{"payload_version": 2}`, kind: carts, err: "run a newer binary"},
	} {
		if test.do == nil {
			test.do = func(*cart) (*time.Time, error) { return nil, nil }
		}
		var seen cart
		for shape, register := range map[string]func(r *jobs.Registry){
			"Row": func(r *jobs.Registry) {
				test.kind.Register(r, jobs.Row(func(_ context.Context, job *jobs.Job[cart]) (*time.Time, error) {
					seen = job.Data
					return test.do(&job.Data)
				}))
			},
			"InTx": func(r *jobs.Registry) {
				test.kind.Register(r, jobs.InTx(func(_ context.Context, tx *sqlx.Tx, job *jobs.Job[cart]) (*time.Time, error) {
					seen = job.Data
					if tx == nil {
						t.Error("there is no transaction")
					}
					return test.do(&job.Data)
				}))
			},
			"Batch": func(r *jobs.Registry) {
				test.kind.Register(r, jobs.Batch(func(_ context.Context, batch []*jobs.Job[cart]) ([]jobs.Result, error) {
					seen = batch[0].Data
					next, err := test.do(&batch[0].Data)
					return []jobs.Result{{Next: next, Err: err}}, nil
				}))
			},
		} {
			seen = cart{}
			result, err := call(t, register, test.in)
			err = stdcmp.Or(err, result.Err)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("%s, %s: %v", test.name, shape, err)
			}
			if diff := cmp.Diff(test.seen, seen) + cmp.Diff(test.out, string(result.Payload)); diff != "" {
				t.Errorf("%s, %s: %s", test.name, shape, diff)
			}
		}
	}
}

// The zero value of a pointer or a map is no object of JSON, and there is nothing of it to write.
func TestARowWithoutAPayloadIsCheckedWhereTheZeroValueOfItsKindIsNone(t *testing.T) {
	t.Parallel()
	kind := jobs.Kind[*cart]{Name: "cart.abandoned", Version: 2}
	for _, test := range []struct {
		name, want string
		do         func(c **cart)
	}{
		{name: "left as it is", do: func(**cart) {}},
		{name: "made by the check", do: func(c **cart) { *c = &cart{Customer: "Eve"} }, want: `{"cents":0,"customer":"Eve","payload_version":2}`},
	} {
		result, err := call(t, func(r *jobs.Registry) {
			kind.Register(r, jobs.Row(func(_ context.Context, job *jobs.Job[*cart]) (*time.Time, error) {
				if job.Data != nil {
					t.Errorf("%s: it has %+v", test.name, *job.Data)
				}
				test.do(&job.Data)
				return new(time.Unix(900, 0)), nil
			}))
		}, "")
		if err != nil || result.Next == nil || string(result.Payload) != test.want {
			t.Errorf("%s: next at %v, payload %s, %v", test.name, result.Next, result.Payload, err)
		}
	}
}

func TestAKindIsAskedForWithItsPayload(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := jobs.Request{EntityName: "cart", EntityKey: "7", CheckAt: w.client.FromNow(time.Hour)}
	if _, err := cents.Enqueue(t.Context(), w.client, jobs.OwnTx(w.db), at, cart{Customer: "Ada", Cents: 5}); err != nil {
		t.Fatal(err)
	}
	row := w.waiting()[0]
	if got, err := cents.Payload(row); err != nil || got != (cart{Customer: "Ada", Cents: 5}) || row.Key() != cents.Key("cart", "7") || !row.NextCheckAt.Equal(slot(5)) {
		t.Errorf("%+v, %+v, %v", row, got, err)
	}
	texts := jobs.Kind[string]{Name: "text", Version: 2}
	if _, err := texts.Enqueue(t.Context(), w.client, jobs.OwnTx(w.db), at, "x"); err == nil || !strings.Contains(err.Error(), "must be a JSON object") {
		t.Error(err)
	}
	if _, err := (jobs.Kind[chan int]{Name: "channel"}).Request(at, nil); err == nil {
		t.Error("a channel was encoded")
	}
}

func TestAKindRefusesARequestOfAnotherJobOrWithAPayload(t *testing.T) {
	t.Parallel()
	for field, request := range map[string]jobs.Request{
		"job_exec": {JobExec: "order.unshipped"},
		"payload":  {Payload: json.RawMessage("{}")},
	} {
		_, err := carts.Request(request, cart{Customer: "Ada"})
		if bad, ok := errors.AsType[*jobs.FieldError](err); !ok || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if request, err := carts.Request(jobs.Request{JobExec: carts.Name}, cart{}); err != nil || request.JobExec != carts.Name {
		t.Errorf("its own name: %v", err)
	}
}

func TestAKindWithoutAFunctionIsNotRegistered(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("it was registered")
		}
	}()
	carts.Register(jobs.NewRegistry(), jobs.Row[*jobs.Job[cart], *time.Time](nil))
}

func TestAPayloadThatCannotBeDecodedIsAnErrorOfItsRowAlone(t *testing.T) {
	t.Parallel()
	registry := jobs.NewRegistry()
	carts.Register(registry, jobs.Batch(func(_ context.Context, batch []*jobs.Job[cart]) ([]jobs.Result, error) {
		if len(batch) != 2 || batch[1].Data.Cents != 3 {
			t.Errorf("%+v", batch)
		}
		return []jobs.Result{{Next: new(slot(1))}, {Next: new(slot(3))}}, nil
	}))
	d, _ := registry.Lookup(carts.Name)
	var rows []jobs.FutureJob
	for _, payload := range []string{`{"cents": 1}`, `{"cents": "2"}`, `{"cents": 3}`} {
		rows = append(rows, jobs.FutureJob{JobExec: d.Name, EntityName: "cart", EntityKey: "7", Payload: json.RawMessage(payload)})
	}
	results, err := d.Call(reserved.Caller{}, t.Context(), nil, rows)
	if err != nil || !results[0].Next.Equal(slot(1)) || results[1].Err == nil || !results[2].Next.Equal(slot(3)) {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestEachRowOfAGroupIsDecodedAndEncodedByItsOwnKind(t *testing.T) {
	t.Parallel()
	plain, versioned := jobs.Kind[cart]{Name: "cart.plain"}, jobs.Kind[cart]{Name: "cart.versioned", Version: 2}
	registry := jobs.NewRegistry()
	group := jobs.Group("carts", func(_ context.Context, _ *sqlx.Tx, batch []*jobs.Job[cart]) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			job.Data.Reminded++
			results[i].Next = new(slot(3))
		}
		return results, nil
	})
	plain.Register(registry, group)
	versioned.Register(registry, group)
	var rows []jobs.FutureJob
	var want []string
	for _, kind := range []jobs.Kind[cart]{plain, versioned} {
		payload, err := kind.Encode(cart{Customer: "Ada"})
		after, _ := kind.Encode(cart{Customer: "Ada", Reminded: 1})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, jobs.FutureJob{JobExec: kind.Name, EntityName: "customer", EntityKey: "7", Payload: payload})
		want = append(want, string(after))
	}
	for d := range registry.All() { // a run calls the function of the first row's job
		var got []string
		results, err := d.Call(reserved.Caller{}, t.Context(), nil, rows)
		for _, result := range results {
			err = errors.Join(err, result.Err)
			got = append(got, string(result.Payload))
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", d.Name, err, diff)
		}
	}
}

func TestATransactionHasTheTypeThatTheFunctionTakes(t *testing.T) {
	t.Parallel()
	registry := jobs.NewRegistry()
	registry.Register("sqlx", jobs.InTx(func(_ context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		return nil, missing(tx == nil)
	}))
	registry.Register("sql", jobs.InTx(func(_ context.Context, tx *sql.Tx, _ jobs.FutureJob) (*time.Time, error) {
		return nil, missing(tx == nil)
	}))
	registry.Register("interface", jobs.BatchInTx(func(_ context.Context, tx jobs.DB, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(batch)), missing(tx == nil)
	}))
	for d := range registry.All() {
		if _, err := d.Call(reserved.Caller{}, t.Context(), &sqlx.Tx{Tx: &sql.Tx{}}, []jobs.FutureJob{{JobExec: d.Name}}); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "a run has no transaction of type *sqlx.DB") {
			t.Error(text)
		}
	}()
	registry.Register("pool", jobs.InTx(func(context.Context, *sqlx.DB, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
}

func missing(is bool) error {
	if is {
		return errors.New("there is no transaction")
	}
	return nil
}
