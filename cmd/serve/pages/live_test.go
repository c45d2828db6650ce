package pages

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// counted is a hub, and how often it has looked.
func counted() (h *hub, looked *int) {
	looked = new(int)
	return newHub(func(context.Context) fragments {
		*looked++
		return fragments{"same": "it", "count": fmt.Sprint(*looked)}
	}), looked
}

func TestOneLookIsForAllWhoWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, looked := counted()
		first := h.subscribe(0)
		synctest.Wait()
		if diff := cmp.Diff(fragments{"same": "it", "count": "1"}, <-first); diff != "" {
			t.Error(diff)
		}
		second := h.subscribe(0)
		if diff := cmp.Diff(fragments{"same": "it", "count": "1"}, <-second); diff != "" {
			t.Errorf("who comes later is not told what was seen last:\n%s", diff)
		}
		time.Sleep(liveEvery)
		synctest.Wait()
		for i, c := range []chan fragments{first, second} {
			if diff := cmp.Diff(fragments{"count": "2"}, <-c); diff != "" {
				t.Errorf("stream %d is told more than what has changed:\n%s", i, diff)
			}
		}
		h.unsubscribe(first)
		h.unsubscribe(second)
		synctest.Wait()
		time.Sleep(time.Hour)
		if *looked != 2 {
			t.Errorf("while nobody watched there were %d looks", *looked-2)
		}
		again := h.subscribe(0)
		synctest.Wait()
		if got := <-again; got["count"] != "3" {
			t.Errorf("who comes after that is told %v", got)
		}
		h.close()
		synctest.Wait()
	})
}

func TestWhoDoesNotReadIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, looked := counted()
		slow := h.subscribe(0)
		time.Sleep((maxBehind + 2) * liveEvery)
		synctest.Wait()
		n := 0
		for range slow { // it is closed
			n++
		}
		if n != maxBehind || *looked != maxBehind+1 {
			t.Errorf("%d messages were kept and %d looks made, want %d and %d", n, *looked, maxBehind, maxBehind+1)
		}
	})
}

func TestStreamsAreBoundedAndEndWithTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := counted()
		for range maxStreams {
			if h.subscribe(0) == nil {
				t.Fatal("a stream is refused")
			}
		}
		if h.subscribe(0) != nil {
			t.Error("there is one too many")
		}
		h.close()
		synctest.Wait() // the loop has ended, or the bubble would fail
		if h.subscribe(0) != nil || len(h.streams) != 0 {
			t.Error("there are streams after the end")
		}
	})
}

func TestOneTokenFillsNoStreamsOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := counted()
		for range maxStreams {
			if h.subscribe(2) == nil {
				t.Fatal("there is no room for the first streams")
			}
		}
		if h.subscribe(2) != nil {
			t.Error("a token has more streams than there is room for")
		}
		own := h.subscribe(1)
		if own == nil || len(h.streams) != maxStreams {
			t.Fatalf("another token has a stream: %v, of %d", own != nil, len(h.streams))
		}
		for range maxStreams {
			h.subscribe(2)
		}
		if _, is := h.streams[own]; !is {
			t.Error("the one token has ended the stream of the other")
		}
		for range maxStreams {
			h.subscribe(1)
		}
		if _, counts := mostOf(maps.Values(h.streams)); counts[1] != maxStreams/2 || counts[2] != maxStreams/2 {
			t.Errorf("the tokens have %v", counts)
		}
		h.close()
		synctest.Wait()
	})
}
