package claim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/slottest"
)

// keys returns the entity keys of rows.
func keys(rows []jobs.FutureJob) (list []string) {
	for _, r := range rows {
		list = append(list, r.EntityKey)
	}
	return list
}

func open(t *testing.T, rows int) *slottest.Slot {
	t.Helper()
	return slottest.Open(t, rows, func(r *jobs.Registry) {
		r.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	})
}

func TestARowIsInOneClaimAlone(t *testing.T) {
	t.Parallel()
	s := open(t, 5)
	other := s.Another()
	first := s.Claim(3)
	rest := other.Claim(3)
	got := [][]string{keys(s.Read(first)), keys(other.Read(rest))}
	if diff := cmp.Diff([][]string{{"0", "1", "2"}, {"3", "4"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c, left, err := s.Session.Claim([]int64{s.Number}, 3); c != nil || len(left) > 0 || err != nil {
		t.Errorf("another claim: %v; jobs left: %v; %v", c, left, err)
	}
	if c, err := other.Session.TakeOver([]int64{s.Number}); c != nil || err != nil {
		t.Errorf("a claim with a lease is taken over: %v, %v", c, err)
	}
}

func TestAnExpiredLeaseIsTakenOver(t *testing.T) {
	t.Parallel()
	s := open(t, 5)
	other := s.Another()
	dead := s.Claim(3)
	s.Expire(dead)
	c, err := other.Session.TakeOver([]int64{s.Number})
	if err != nil || c == nil || c.First != dead.First || c.Last != dead.Last || c.Token == dead.Token {
		t.Fatalf("taken over: %+v of %+v, %v", c, dead, err)
	}
	c.Begin(other.Checks)
	if diff := cmp.Diff([]string{"0", "1", "2"}, keys(other.Read(c))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	beats, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	s.Server.Lease = 300 * time.Millisecond // so that it sends a heartbeat at once
	go s.Leases.Beat(beats)
	select {
	case <-dead.Ctx.Done():
	case <-beats.Done():
	}
	if !errors.Is(context.Cause(dead.Ctx), claim.ErrLost) {
		t.Errorf("the checks of the runner that lost the claim end by %v", context.Cause(dead.Ctx))
	}
}

// The runner counts the lease from the call that it repeats, because the reply to the first one was lost.
func TestACallForAClaimThatIsRepeatedRenewsItsLease(t *testing.T) {
	t.Parallel()
	s := open(t, 3)
	c := s.Claim(3)
	for name, call := range map[string]string{
		"claim_rows": `select first_id from prescient.claim_rows($1, 'run', $2, 'me', '1 minute', array[$3::bigint], 3)`,
		"take_over":  `select first_id from prescient.take_over($1, 'run', $2, 'me', '1 minute', array[$3::bigint])`,
	} {
		var first int64
		var lasts float64
		db := s.Server.DB
		if _, err := db.ExecContext(t.Context(), `update prescient.slot_claim set allocated_until = statement_timestamp() + interval '1 s' where token = $1`, c.Token); err != nil {
			t.Fatal(err)
		}
		if err := db.GetContext(t.Context(), &first, call, s.At(), c.Token, s.Number); err != nil || first != c.First {
			t.Errorf("%s: rows from %d, want %d: %v", name, first, c.First, err)
		}
		err := db.GetContext(t.Context(), &lasts, `select extract(epoch from allocated_until - clock_timestamp())::float8 from prescient.slot_claim where token = $1`, c.Token)
		if err != nil || lasts < 10 {
			t.Errorf("%s: the lease lasts %.0f s, want a minute: %v", name, lasts, err)
		}
	}
}

// The clock of the runner is years ahead here.
func TestALeaseEndsByTheClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	s := open(t, 5)
	dead := s.Claim(2)
	s.Expire(dead)
	other := s.Another()
	if c, err := other.Session.TakeOver([]int64{s.Number}); c == nil || err != nil {
		t.Fatalf("taken over: %+v, %v", c, err)
	}
	other.Claim(2)
	var claims, right int
	if err := s.Server.DB.QueryRowxContext(t.Context(), `
		select count(*), count(*) filter (where allocated_until - clock_timestamp() between '0' and '1 minute')
		from prescient.slot_claim`).Scan(&claims, &right); err != nil {
		t.Fatal(err)
	}
	if claims != 4 || right != claims {
		t.Errorf("%d of %d leases end within their length from now", right, claims)
	}
}

// A run knows which jobs were paused when it last listed them.
func TestNoRowsOfAJobThatIsPausedMeanwhileAreClaimed(t *testing.T) {
	t.Parallel()
	s := open(t, 5)
	other := s.Another()
	dead := s.Claim(2)
	s.Expire(dead)
	client, err := jobs.NewClient(t.Context(), s.Server.DB, jobs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	operator := admin.New(client)
	if paused, err := operator.Pause(t.Context(), s.Server.DB, "job"); !paused || err != nil {
		t.Fatal(paused, err)
	}
	if c, left, err := other.Session.Claim([]int64{s.Number}, 3); c != nil || len(left) > 0 || err != nil {
		t.Errorf("claimed: %+v; jobs left: %v; %v", c, left, err)
	}
	if c, err := other.Session.TakeOver([]int64{s.Number}); c != nil || err != nil {
		t.Errorf("taken over: %+v, %v", c, err)
	}
	if resumed, err := operator.Resume(t.Context(), s.Server.DB, "job"); !resumed || err != nil {
		t.Fatal(resumed, err)
	}
	c := other.Claim(3)
	if diff := cmp.Diff([]string{"2", "3", "4"}, keys(other.Read(c))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRowsThatStayAreNotReadAgain(t *testing.T) {
	t.Parallel()
	s := open(t, 5)
	c := s.Claim(5)
	rows := s.Read(c)
	c.Postpone(rows[0].ID)
	c.SkipUnreadable(rows[3].ID)
	c.SkipUnreadable(rows[1].ID)
	if diff := cmp.Diff([]string{"2", "4"}, keys(s.Read(c))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !c.IsUnreadable(rows[1].ID) || c.IsUnreadable(rows[2].ID) {
		t.Error("the claim mistakes which rows cannot be read")
	}
}

func TestASlotIsClosedOnceItsClaimsAreGone(t *testing.T) {
	t.Parallel()
	s := open(t, 2)
	s.Claim(2)
	if state, err := s.Session.Close(false); state == "done" || err != nil {
		t.Errorf("with a claim: %s, %v", state, err)
	}
	for _, query := range []string{`delete from prescient.future_job`, `delete from prescient.slot_claim where cardinality(jobs) > 0`} {
		if _, err := s.Server.DB.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	if state, err := s.Session.Close(false); state != "done" || err != nil {
		t.Errorf("without claims: %s, %v", state, err)
	}
}

func TestALookTellsWhichRowsAreLeft(t *testing.T) {
	t.Parallel()
	s := open(t, 3)
	c := s.Claim(3)
	rows := s.Read(c)
	if _, err := s.Server.DB.ExecContext(t.Context(), `delete from prescient.future_job where entity_key = '1'`); err != nil {
		t.Fatal(err)
	}
	left, err := s.Session.Remaining(c.Ctx, s.Number, []int64{rows[0].ID, rows[1].ID, rows[2].ID})
	if want := map[int64]bool{rows[0].ID: true, rows[2].ID: true}; err != nil || !cmp.Equal(left, want) {
		t.Errorf("left are %v, want %v; %v", left, want, err)
	}
}
