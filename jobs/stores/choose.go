package stores

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prescient-go/prescient/slots/grid"
)

// score is how a store ranks for a key: the first 60 bits of the SHA-256 of its name, the character 31 and the key, in UTF-8. The
// function prescient.place_hash of the database returns the same for such a text.
func score(store, key string) int64 { return grid.Hash(store + "\x1f" + key) }

// choose returns the store that ranks highest for a key, of two that rank alike the one that is first by name; nil: there is none.
func choose(list []*Store, key string) *Store {
	var best *Store
	var most int64
	for _, s := range list {
		n := score(s.Name, key)
		if best == nil || n > most || n == most && s.Name < best.Name {
			best, most = s, n
		}
	}
	return best
}

// ByKey returns the store for a key, such as a tenant, by rendezvous hashing over the names of the stores that are not being
// drained: the one that ranks highest, where the rank is the first 60 bits of the SHA-256 of the name, the character 31 (hex 1f) and the key. So
// everybody chooses the same, in any language and version; keys are spread evenly; and when a store comes or goes, only the keys move
// that it gets or had.
//
// It is an error where all are being drained, and where the store does not answer: another one would be the wrong one.
func (s *Set) ByKey(key string) (*Store, error) {
	best := choose(chosen(*s.list.Load()), key)
	if best == nil {
		return nil, fmt.Errorf("choose a store for %q: %w", key, errAllDrained)
	}
	return best.usable()
}

var errAllDrained = errors.New("all stores are being drained")

// Holding returns the stores in which a check of a key may wait that was enqueued where ByKey says, in the order in which to look for it: the
// chosen one is the last. Where no store was drained or added lately, the last is enough. A store that has not answered yet, whose Client is nil,
// is among them: a check may wait there.
func (s *Set) Holding(key string) []*Store {
	stores := *s.list.Load()
	best := choose(chosen(stores), key)
	var list []*Store
	for _, store := range stores {
		if store != best {
			list = append(list, store)
		}
	}
	if best != nil {
		list = append(list, best)
	}
	return list
}

// chosen are the stores among which ByKey chooses.
func chosen(stores []*Store) (list []*Store) {
	for _, store := range stores {
		if store.DrainingSince.IsZero() {
			list = append(list, store)
		}
	}
	return list
}

// For returns the store with a name. It is an error where there is none, and where it does not answer.
func (s *Set) For(name string) (*Store, error) {
	store, err := named(*s.list.Load(), name)
	if err != nil {
		return nil, err
	}
	return store.usable()
}

func named(stores []*Store, name string) (*Store, error) {
	var names []string
	for _, store := range stores {
		if store.Name == name {
			return store, nil
		}
		names = append(names, store.Name)
	}
	return nil, fmt.Errorf("there is no store %q; there are %s", name, strings.Join(names, ", "))
}
