package stores

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prescient-go/prescient/slots/grid"
)

// score returns the rank of a store for a key: the first 60 bits of the SHA-256 of its name, the
// character 31 and the key, in UTF-8. The database's function prescient.window_hash returns the
// same for that text.
func score(store, key string) int64 { return grid.Hash(store + "\x1f" + key) }

// choose returns the store with the highest rank for a key. If ranks are equal, the first name
// wins. Returns nil if there is no store.
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

// Route returns the store for a key, such as a tenant, by rendezvous hashing. It ranks the names of
// the stores that are not being drained, and returns the one with the highest rank. The rank is the
// first 60 bits of the SHA-256 of the name, the character 31 (hex 1f) and the key.
//
// So every process chooses the same store, in any language and version, and keys are spread evenly.
// When a store comes or goes, only its own keys move.
//
// Returns an error if all stores are being drained, or if the store does not answer: another store
// would be wrong.
func (s *Set) Route(key string) (*Store, error) {
	best := choose(chosen(*s.list.Load()), key)
	if best == nil {
		return nil, fmt.Errorf("choose a store for %q: %w", key, errAllDrained)
	}
	return best.usable()
}

var errAllDrained = errors.New("all stores are being drained")

// Candidates returns the stores in which a check of a key may wait that was enqueued by Route.
// Search them in their order: the last one is the store of Route. It is enough if no store was
// drained or added lately. A store that has not answered yet, whose Client is nil, is included: a
// check may wait there.
func (s *Set) Candidates(key string) []*Store {
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

// chosen returns the stores among which Route chooses.
func chosen(stores []*Store) (list []*Store) {
	for _, store := range stores {
		if store.DrainingSince.IsZero() {
			list = append(list, store)
		}
	}
	return list
}

// Get returns the store with a name. Returns an error if no store has it, or if the store does not answer.
func (s *Set) Get(name string) (*Store, error) {
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
