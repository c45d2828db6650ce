package pages

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/health"
)

// How long the page of all stores waits for a store that does not answer.
const (
	statusTimeout = 2 * time.Second
	findTimeout   = 10 * time.Second // for the timeline of an entity
)

// NewStores returns the handler of the page of all stores, where visitors log in for all of them.
func NewStores(cfg Config) *Pages {
	s := newSite(cfg)
	all := allStores{s}
	s.sections = []section{{"/", "Stores"}}
	s.state = func(ctx context.Context) verdict { return all.read(ctx).Verdict }
	return newPages(s, all.fragments, func(mux *http.ServeMux, v visitors) {
		mux.Handle("GET /{$}", v.readers(all.show))
		mux.Handle("GET /entity", v.readers(all.find))
		mux.Handle(StorePath(""), v.readers(all.absent))
	})
}

// Of returns the handler of the pages of one store. Their paths begin with StorePath, after those
// of NewStores, and they share its log-ins.
func (p *Pages) Of(store string, b *board.Board) *Pages {
	one := *p.site
	one.store, one.base, one.cfg.Board = store, StorePath(store), b
	return ofBoard(&one)
}

// MayRead reports whether the visitor may read.
func (p *Pages) MayRead(r *http.Request) bool { return visitors{p.site}.mayRead(r) }

// StorePath returns the beginning of the paths of a store's pages.
func StorePath(store string) string { return "/stores/" + store }

// storesPage answers "are they all right?".
type storesPage struct {
	Verdict verdict
	Stores  []storeLine
}

// storeLine is a store in the list of all stores.
type storeLine struct {
	board.StoreStatus
	Path  string
	State verdict
	Wrong []string // in words
}

// allStores shows the stores of a server.
type allStores struct{ *site }

func (p allStores) show(w http.ResponseWriter, r *http.Request) {
	p.site.show(w, r, http.StatusOK, "stores", page{Section: "Stores", Content: p.read(r.Context())})
}

// absent answers for a store without pages: it is down, or no store has the name.
func (p allStores) absent(w http.ResponseWriter, r *http.Request) {
	if store, _, why := p.cfg.Stores.Of(strings.TrimPrefix(r.URL.Path, StorePath(""))); why != nil {
		p.fail(w, r, http.StatusServiceUnavailable,
			fmt.Sprintf("Store %s cannot be read: %s.", store, spoken.Error(why.Error())))
		return
	}
	p.fail(w, r, http.StatusNotFound, noPage)
}

func (p allStores) read(ctx context.Context) (v storesPage) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	v.Stores = seq.Map(p.cfg.Stores.Read(ctx).Stores, newStoreLine)
	v.Verdict = v.judge()
	return v
}

func newStoreLine(s board.StoreStatus) storeLine {
	v := storeLine{StoreStatus: s, Path: StorePath(s.Name) + "/", State: verdict{Mark: "ok", Text: "all is well"}}
	v.Wrong = seq.Map(s.Findings, func(f health.Finding) string { return f.Text })
	switch n := len(s.Findings); {
	case s.Error != "":
		v.State, v.Wrong = verdict{Mark: "bad", Text: "cannot be read"}, []string{s.Error}
	case n > 0:
		v.State = verdict{Mark: "bad", Text: plural(int64(n), "thing is wrong", "things are wrong")}
	case time.Duration(s.Age) > tooOld:
		v.State = verdict{Mark: "warn", Text: "was well " + dur(s.Age) + " ago"}
	}
	return v
}

// Expected describes the forecast of the next slot.
func (s storeLine) Expected() string {
	if s.Next == nil || s.Next.Forecast == nil {
		return "nothing is forecast"
	}
	if s.Next.Slots > 1 {
		return "and " + num(s.Next.Slots-1) + " more slots: " + says(*s.Next)
	}
	return says(*s.Next)
}

// judge returns the verdict about all stores.
func (v storesPage) judge() verdict {
	var wrong, unread int
	for _, s := range v.Stores {
		switch s.State.Mark {
		case "bad":
			wrong++
			unread += int(one(s.Error != ""))
		}
	}
	all := plural(int64(len(v.Stores)), "store", "stores")
	switch {
	case len(v.Stores) == 0:
		return verdict{
			Mark: "warn", Text: "No store is known yet", Detail: "The server is searching for the stores of the settings.",
		}
	case wrong == 0:
		return verdict{Mark: "ok", Text: "All is well", Detail: "In " + all + "."}
	case unread == 0:
		return verdict{
			Mark: "bad", Text: "Something is wrong in " + num(wrong) + " of " + all, Count: wrong,
			Detail: "The page of each store has the button or the command that mends it.",
		}
	}
	return verdict{
		Mark: "bad", Text: "Something is wrong in " + num(wrong) + " of " + all, Count: wrong,
		Detail: plural(int64(unread), "store", "stores") + " cannot be read. The other stores are shown.",
	}
}

// fragments returns the parts of the page that change.
func (p allStores) fragments(ctx context.Context, _ string) fragments {
	v := p.read(ctx)
	return p.parts(ctx, "stores", map[string]part{
		"state": {"state", v.Verdict}, "verdict": {"stores-verdict", v},
		"stores": {"store-table", v},
	})
}

// whichPage lists the stores that know an entity.
type whichPage struct {
	Name, Key string
	Known     []knownIn
	Others    []other
	Unasked   []board.Found
}

// knownIn is a store that knows the entity.
type knownIn struct {
	board.Found
	Path string // of its timeline
}

// other is an entity of another kind with the same key.
type other struct{ Store, Kind, Path string }

// Told returns the length of the timeline.
func (k knownIn) Told() int64 { return int64(len(k.Entity.Timeline)) }

// find finds the stores that know an entity. If there is one, it redirects to its page.
func (p allStores) find(w http.ResponseWriter, r *http.Request) {
	v := whichPage{Name: r.URL.Query().Get("name"), Key: r.URL.Query().Get("key")}
	shown := page{Title: "Find an entity", Search: search{v.Name, v.Key}}
	if v.Name != "" && v.Key != "" {
		ctx, cancel := context.WithTimeout(r.Context(), findTimeout)
		defer cancel()
		for _, f := range p.cfg.Stores.Find(ctx, jobs.Key{EntityName: v.Name, EntityKey: v.Key}) {
			at := StorePath(f.Name) + "/entity"
			switch {
			case f.Error != "":
				v.Unasked = append(v.Unasked, f)
			case len(f.Entity.Timeline) > 0:
				v.Known = append(v.Known, knownIn{f, link(at, "name", v.Name, "key", v.Key)})
			}
			for _, kind := range f.Entity.Kinds {
				v.Others = append(v.Others, other{f.Name, kind, link(at, "name", kind, "key", v.Key)})
			}
		}
		if len(v.Known) == 1 && len(v.Unasked) == 0 {
			http.Redirect(w, r, p.link(v.Known[0].Path), http.StatusSeeOther)
			return
		}
		shown.Title = cut(60, v.Name+" "+v.Key)
	}
	shown.Content = v
	p.site.show(w, r, http.StatusOK, "which", shown)
}
