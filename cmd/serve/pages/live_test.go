package pages

import (
	"context"
	"fmt"
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
		first := h.join()
		synctest.Wait()
		if diff := cmp.Diff(fragments{"same": "it", "count": "1"}, <-first); diff != "" {
			t.Error(diff)
		}
		second := h.join()
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
		h.leave(first)
		h.leave(second)
		synctest.Wait()
		time.Sleep(time.Hour)
		if *looked != 2 {
			t.Errorf("while nobody watched there were %d looks", *looked-2)
		}
		again := h.join()
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
		slow := h.join()
		time.Sleep((waiting + 2) * liveEvery)
		synctest.Wait()
		n := 0
		for range slow { // it is closed
			n++
		}
		if n != waiting || *looked != waiting+1 {
			t.Errorf("%d messages were kept and %d looks made, want %d and %d", n, *looked, waiting, waiting+1)
		}
	})
}

func TestStreamsAreBoundedAndEndWithTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := counted()
		for range maxStreams {
			if h.join() == nil {
				t.Fatal("a stream is refused")
			}
		}
		if h.join() != nil {
			t.Error("there is one too many")
		}
		h.close()
		synctest.Wait() // the loop has ended, or the bubble would fail
		if h.join() != nil || len(h.streams) != 0 {
			t.Error("there are streams after the end")
		}
	})
}
