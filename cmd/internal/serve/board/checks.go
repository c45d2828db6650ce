package board

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

const (
	// maxTimeline bounds the sentences of a timeline.
	maxTimeline = 1000
	// maxPage bounds the checks, schedules or events of a page. defaultPage is the default.
	maxPage     = 200
	defaultPage = 50
)

// Entity returns the timeline of the checks of an entity. A job and an item of the key narrow it.
func (b *Board) Entity(ctx context.Context, key jobs.Key, acted int64) (Entity, error) {
	if err := cmp.Or(action.CheckText("entity_name", key.EntityName), action.CheckText("entity_key", key.EntityKey),
		action.CheckWords(key.JobExec, key.ItemKey)); err != nil {
		return Entity{}, err
	}
	return read(ctx, b.source, keyOf("entity", key.EntityName, key.EntityKey, key.JobExec, key.ItemKey), acted, pageAge,
		func(ctx context.Context, r *reader) (Entity, error) {
			v := Entity{
				EntityName: key.EntityName, EntityKey: key.EntityKey, Kinds: []string{}, Checks: []view.CheckData{},
			}
			events, err := admin.New(r.client).Timeline(ctx, r, key)
			if v.More = len(events) > maxTimeline; v.More {
				events = events[len(events)-maxTimeline:]
			}
			v.Timeline = seq.Map(events, func(e admin.TimelineEntry) Sentence {
				return Sentence{view.NewEvent(e), e.Sentence(r.now(), b.cfg.Self)}
			})
			if err != nil {
				return v, err
			}
			wait, err := action.Waiting(ctx, r, r.schema, key,
				sql.NullString{String: key.ItemKey, Valid: key.ItemKey != ""}, false)
			v.Waiting = wait.Rows
			if err != nil {
				return v, err
			}
			if len(events) > 0 {
				v.Checks, err = checksOf(ctx, r, key)
				return v, err
			}
			kinds, err := admin.New(r.client).Kinds(ctx, r, key.EntityKey)
			v.Kinds = append(v.Kinds, kinds...)
			return v, err
		})
}

// checksOf reads the rows of an entity with their payloads.
func checksOf(ctx context.Context, r *reader, key jobs.Key) ([]view.CheckData, error) {
	operator := admin.New(r.client)
	var item *string
	if key.ItemKey != "" {
		item = &key.ItemKey
	}
	waiting, _, err := operator.ListPage(ctx, r, admin.Filter{
		JobExec: key.JobExec, EntityName: key.EntityName, EntityKey: key.EntityKey, ItemKey: item, Limit: defaultPage,
	})
	if err != nil {
		return nil, err
	}
	ended, _, err := operator.HistoryPage(ctx, r, admin.HistoryFilter{
		JobExec: key.JobExec, EntityName: key.EntityName, EntityKey: key.EntityKey, ItemKey: item, Limit: defaultPage,
	})
	list := []view.CheckData{}
	for _, j := range waiting {
		if !j.Anonymous { // the timeline has none of these
			list = append(list, view.NewCheckData(j))
		}
	}
	for _, row := range ended {
		list = append(list, view.NewCheckData(row.FutureJob))
	}
	return list, err
}

// windows are how far back History looks, one after another, until it has found enough. History has
// no index by time.
var windows = []time.Duration{15 * time.Minute, 2 * time.Hour, day, 31 * day}

// History returns ended rows, the latest first. For an entity it reads all of history, else the
// last month. The filter must leave From and ItemKey unset. Its Limit defaults to 50, at most 200.
func (b *Board) History(ctx context.Context, f admin.HistoryFilter, acted int64) (History, error) {
	if err := cmp.Or(checkPage(&f.Limit), action.CheckWords(f.JobExec, f.EntityName, f.EntityKey),
		action.CheckInstant("until", f.To)); err != nil {
		return History{}, err
	}
	if f.Outcome != "" && !slices.Contains(jobs.Outcomes(), f.Outcome) {
		return History{}, &jobs.FieldError{Field: "outcome", Message: "there is no such outcome"}
	}
	key := keyOf("history", f.JobExec, string(f.Outcome), f.EntityName, f.EntityKey,
		f.To.UTC().Format(time.RFC3339Nano), fmt.Sprint(f.Limit), f.After.String())
	return read(ctx, b.source, key, acted, pageAge, func(ctx context.Context, r *reader) (v History, err error) {
		filter := f
		until := cmp.Or(f.After.At(), f.To, r.now())
		v.Checks = []view.Ended{}
		for _, window := range windows {
			if indexed := f.EntityKey != "" && f.EntityName != ""; !indexed {
				filter.From = until.Add(-window).UTC()
				v.Since = &filter.From
			}
			found, next, err := admin.New(r.client).HistoryPage(ctx, r, filter)
			if err != nil {
				return v, err
			}
			if v.Checks, v.After = view.NewEnded(found), after(next); v.After != nil || v.Since == nil {
				break
			}
		}
		return v, nil
	})
}

// Waiting returns waiting checks, ordered by slot. The filter must leave EntityKey and ItemKey unset.
// Its Limit defaults to 50, and is at most 200.
func (b *Board) Waiting(ctx context.Context, f admin.Filter, acted int64) (Waiting, error) {
	if err := cmp.Or(checkPage(&f.Limit), action.CheckWords(f.JobExec, f.EntityName), action.CheckInstant("from", f.From),
		action.CheckInstant("to", f.To)); err != nil {
		return Waiting{}, err
	}
	key := keyOf("waiting", f.JobExec, f.EntityName, f.From.UTC().Format(time.RFC3339Nano),
		f.To.UTC().Format(time.RFC3339Nano), fmt.Sprint(f.Limit), f.After.String())
	return read(ctx, b.source, key, acted, pageAge, func(ctx context.Context, r *reader) (v Waiting, err error) {
		paused, err := admin.New(r.client).Paused(ctx, r)
		if err != nil {
			return v, err
		}
		if err := r.slotIndexOnly(ctx); err != nil {
			return v, err
		}
		list, next, err := admin.New(r.client).ListPage(ctx, r, f)
		v.Checks = seq.Map(list, func(j jobs.FutureJob) view.Check { return view.NewCheck(j, paused) })
		v.After = after(next)
		return v, err
	})
}

// after returns the position of the next page, or nil after the last page.
func after(next admin.Position) *string {
	if next.IsZero() {
		return nil
	}
	return new(next.String())
}

// ParseNumber reads a position in a list whose rows have numbers.
func ParseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("%q is not the position of a row: want the one that the page before gave", text)
	}
	return n, nil
}

// keyOf returns the cache key of a read with a caller's parameters.
func keyOf(what string, parameters ...string) string {
	return what + "\x00" + strings.Join(parameters, "\x00")
}

// Page is a part of a list: the elements behind a position, and not more than a limit. Limit defaults to 50, and is at
// most 200.
type Page[P any] struct {
	After P
	Limit int
}

// checkPage refuses a page that is too long, and sets the default length.
func checkPage(limit *int) error {
	if *limit == 0 {
		*limit = defaultPage
	}
	if *limit < 1 || *limit > maxPage {
		return &jobs.FieldError{Field: "limit", Message: fmt.Sprintf("must be 1 to %d", maxPage)}
	}
	return nil
}
