package pages

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// poll asks for the parts that change as a page does that has those of a tag.
func (l *live) poll(tag string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, livePath, nil)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	w := httptest.NewRecorder()
	l.serve(w, r)
	return w
}

func TestOpenPagesShareWhatIsRenderedAndGetItOnlyIfItHasChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rendered, state atomic.Int64
		l := &live{render: func(context.Context) fragments {
			rendered.Add(1)
			return fragments{"count": fmt.Sprint(state.Load())}
		}}
		var polls sync.WaitGroup
		for range 200 {
			polls.Go(func() {
				if w := l.poll(""); w.Code != http.StatusOK || w.Body.String() != `{"count":"0"}` {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		polls.Wait()
		tag := l.poll("").Header().Get("ETag")
		time.Sleep(liveFor)
		w := l.poll(tag)
		if w.Code != http.StatusNotModified || w.Body.Len() > 0 || rendered.Load() != 2 {
			t.Errorf("%d %s after %d renderings, want 304 after 2", w.Code, w.Body, rendered.Load())
		}
		state.Add(1)
		time.Sleep(liveFor)
		if w := l.poll(tag); w.Code != http.StatusOK || w.Body.String() != `{"count":"1"}` || w.Header().Get("ETag") == tag {
			t.Errorf("%d %s %s", w.Code, w.Body, w.Header())
		}
	})
}

func TestAPageThatLeavesDoesNotEndTheReadingForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &live{render: func(ctx context.Context) fragments {
			<-ctx.Done()
			return fragments{"state": context.Cause(ctx).Error()}
		}}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		begun := time.Now()
		text, _ := l.current(ctx)
		if took := time.Since(begun); took != liveTimeout || string(text) != `{"state":"context deadline exceeded"}` {
			t.Errorf("%s after %s", text, took)
		}
	})
}
