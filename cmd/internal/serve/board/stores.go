package board

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/health"
)

// Stores holds the boards of several stores, by name. The zero value has none. It is safe for
// concurrent use.
type Stores struct {
	mu  sync.Mutex
	all map[string]member
}

// member is a store that has a board, or the reason why it has none.
type member struct {
	board  *Board
	served http.Handler
	down   error
}

// SetUp adds or replaces a store: its board, and the handler of its pages and API.
func (s *Stores) SetUp(store string, b *Board, served http.Handler) {
	s.set(store, member{board: b, served: served})
}

// SetDown marks a store as unreachable with the given error. A nil error removes the store.
func (s *Stores) SetDown(store string, err error) { s.set(store, member{down: err}) }

func (s *Stores) set(store string, m member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]member{}
	}
	if s.all[store] = m; m == (member{}) {
		delete(s.all, store)
	}
}

// Of returns the store with which a path begins, with its handler, or why it cannot be read. A path is
// the name of a store, with or without a slash and more. Of returns no name if there is no such store.
// The longest name counts: an entry of the settings whose stores could not be listed is named beside its
// stores, whose names begin with the name of the entry.
func (s *Stores) Of(path string) (store string, served http.Handler, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for store = path; ; {
		if m, known := s.all[store]; known {
			return store, m.served, m.down
		}
		end := strings.LastIndexByte(store, '/')
		if end < 0 {
			return "", nil, nil
		}
		store = store[:end]
	}
}

// ErrOpening is why a store that is not served yet, or is tried again, cannot be read.
var ErrOpening = errors.New("it is being opened; try again")

// StoreList is a list of all stores.
type StoreList struct {
	Stores []StoreStatus `json:"stores"` // the worst first
}

// StoreStatus is the state of one of several stores.
type StoreStatus struct {
	Name     string           `json:"name"`
	OK       bool             `json:"ok"`       // it can be read and has no findings
	Error    string           `json:"error"`    // why it cannot be read; empty if it can
	Findings []health.Finding `json:"findings"` // the problems
	Missed   int              `json:"missed"`   // slots that no run has opened
	view.OverdueRows
	Failing int `json:"failing"` // jobs of which more than half of the checks failed in their last slot
	// CurrentSlot is the slot that has begun last. Null: the store cannot be read.
	CurrentSlot *time.Time    `json:"current_slot"`
	Current     *Cell         `json:"current"` // that slot, on the axis of the overview
	Next        *Cell         `json:"next"`
	Age         duration.Text `json:"age"` // since all this was read
}

// Read returns the state of each store, as far as it can be read before ctx ends. A store that does
// not answer is listed as such, and does not delay the answers of other stores.
func (s *Stores) Read(ctx context.Context) StoreList {
	list := fanOut(s, func(name string, m member) StoreStatus {
		v := StoreStatus{Name: name, Findings: []health.Finding{}}
		if m.down != nil {
			v.Error = m.down.Error()
			return v
		}
		o, err := m.board.Overview(ctx, 0)
		if err != nil {
			v.Error = reason(err)
			return v
		}
		v.add(o)
		return v
	})
	slices.SortFunc(list, func(a, b StoreStatus) int {
		return cmp.Or(cmp.Compare(b.severity(), a.severity()), cmp.Compare(a.Name, b.Name))
	})
	return StoreList{Stores: list}
}

// severity returns the number of findings, or the maximum if the store cannot be read.
func (s *StoreStatus) severity() int {
	if s.Error != "" {
		return math.MaxInt
	}
	return len(s.Findings)
}

// add copies the overview of the store.
func (s *StoreStatus) add(o Overview) {
	s.OK, s.Findings, s.Missed, s.Age = o.OK, o.Findings, len(o.Missed)+int(o.MoreMissed), o.Age
	s.OverdueRows = o.OverdueRows
	s.CurrentSlot = &o.CurrentSlot
	for i := range o.Jobs {
		if health.Failing(&o.Jobs[i]) {
			s.Failing++
		}
	}
	for i, c := range o.Axis {
		if c.Slot.After(o.CurrentSlot) {
			s.Next = &o.Axis[i]
			break
		}
		s.Current = &o.Axis[i]
	}
}

// reason returns why a store cannot be read.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, web.ErrLate) {
		return "the database does not answer"
	}
	return spoken.Error(err.Error())
}

// Glance is what the board of one of several stores knows about its health.
type Glance struct {
	Name     string
	Findings []health.Finding // the problems that were last read
	Age      time.Duration    // since then; 0: they were never read
	Silent   time.Duration    // how long the newest read has waited for the database; 0: it has ended
	Error    string           // why the store cannot be read; empty: the last read has succeeded
}

// Glance returns the health of each store, by name. It waits for a database that does not answer
// until ctx ends, and then returns what was last read.
func (s *Stores) Glance(ctx context.Context) []Glance {
	return fanOut(s, func(name string, m member) Glance {
		if m.down != nil {
			return Glance{Name: name, Error: m.down.Error()}
		}
		g := m.board.glance(ctx)
		g.Name = name
		return g
	})
}

// Found says what one of several stores knows about an entity.
type Found struct {
	Name   string
	Entity Entity
	Error  string // why it cannot be read; empty if it was
}

// Find returns the stores that know an entity, those that have other kinds with its key, and those
// that cannot be read, by name.
func (s *Stores) Find(ctx context.Context, key jobs.Key) []Found {
	list := fanOut(s, func(name string, m member) Found {
		if m.down != nil {
			return Found{Name: name, Error: m.down.Error()}
		}
		e, err := m.board.Entity(ctx, key, 0)
		if err != nil {
			return Found{Name: name, Error: reason(err)}
		}
		return Found{Name: name, Entity: e}
	})
	return slices.DeleteFunc(list, func(f Found) bool {
		return f.Error == "" && len(f.Entity.Timeline) == 0 && len(f.Entity.Kinds) == 0
	})
}

// fanOut calls fn for each store concurrently, and returns the answers by name.
func fanOut[T any](s *Stores, fn func(store string, m member) T) []T {
	s.mu.Lock()
	members := maps.Clone(s.all)
	s.mu.Unlock()
	names := slices.Sorted(maps.Keys(members))
	answers := make([]T, len(names))
	var work sync.WaitGroup
	for i, name := range names {
		work.Go(func() { answers[i] = fn(name, members[name]) })
	}
	work.Wait()
	return answers
}
