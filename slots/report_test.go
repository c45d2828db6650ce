package slots

import (
	"context"
	"sync/atomic"
	"testing"
)

// All claims that wait for locks end their wait at once.
func TestClaimsThatAreLeftLookForTheSessionOneAfterTheOther(t *testing.T) {
	t.Parallel()
	for name, found := range map[string]string{
		"one finds it": "session 7", "future_job is locked itself": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r report
			var looks atomic.Int64
			ended := make(chan bool)
			for range 5 {
				go func() {
					r.holder.look(t.Context(), func(ctx context.Context) string {
						if looks.Add(1); found == "" {
							<-ctx.Done()
						}
						return found
					})
					ended <- true
				}()
			}
			for range 5 {
				<-ended
			}
			if n := looks.Load(); n != 1 || r.holder.found != found {
				t.Errorf("%d claims have looked, and found %q", n, r.holder.found)
			}
		})
	}
}
