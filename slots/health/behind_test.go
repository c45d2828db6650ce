package health_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// A digest is due for up to a width before the run that sends it, and a run leaves messages to the next one if the
// receiver takes no more for now.
func TestAMessageThatIsDueIsBehindOnlyIfItWaitsForLong(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.MustExec(`insert into prescient.event_consumer (name, mark, position, address, types)
		values ('receiver:ops', pg_current_xact_id(), 0, 'file:///ops.txt', '{prescient.notify.ops}')`)
	db.MustExec(`insert into prescient.event_dead (consumer, id, source, type, refused_at)
		values ('receiver:ops', '1', 's', 'prescient.notify.ops', now() - interval '1 day')`)
	const behind = "is behind: 1 due message waits, the oldest since … No process forwards: "
	for _, test := range []struct{ what, width, set, want string }{
		{"due for a second", "15 minutes", "send_at = now() - interval '1 second'", ""},
		{"due for a width and less than the threshold", "15 minutes", "send_at = now() - interval '44 minutes'", ""},
		{"due for long", "15 minutes", "send_at = now() - interval '46 minutes'", behind},
		{"due for less than a wide slot", "2 hours", "send_at = now() - interval '61 minutes'", ""},
		{"due for longer than a wide slot", "2 hours", "send_at = now() - interval '151 minutes'", behind},
		{
			"refused", "2 hours", "send_at = now() - interval '1 second', refusals = 1, error = 'no such desk'",
			"is behind: 1 refused event is tried again, the oldest since … The last error: no such desk. ",
		},
	} {
		db.MustExec("select prescient.set_width($1)", test.width)
		db.MustExec("update prescient.event_dead set " + test.set)
		l, err := ledger.New(t.Context(), db, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		report, err := health.Check(t.Context(), l, time.Time{}, health.Thresholds{}, func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		var found []health.Finding
		for _, f := range report.Findings {
			if f.Condition == "destinations" {
				found = append(found, f)
			}
		}
		if test.want == "" {
			if len(found) > 0 {
				t.Errorf("%s: %+v", test.what, found)
			}
			continue
		}
		before, after, _ := strings.Cut(test.want, "…")
		if len(found) != 1 || found[0].About != "receiver:ops" || !strings.Contains(found[0].Text, before) || !strings.Contains(found[0].Text, after) {
			t.Errorf("%s: %+v, want %s", test.what, found, test.want)
		}
	}
}

// The type of a message begins with "prescient.notify.", whatever the schema is.
func TestAMessageKeepsNoDestinationBehindInAnotherSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if err := pgsql.Migrate(t.Context(), db, "shop"); err != nil {
		t.Fatal(err)
	}
	l, err := ledger.New(t.Context(), db, "shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	db.MustExec(`
		insert into shop.event_consumer (name, mark, position, address) values ('all', '0', 0, 'file:///all.txt');
		insert into shop.event_outbox (id, source, type) values ('1', 's', 'prescient.notify.ops')`)
	if list, err := l.DestinationsBehind(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	db.MustExec(`insert into shop.event_outbox (id, source, type) values ('2', 's', 'order.late')`)
	if list, err := l.DestinationsBehind(t.Context()); err != nil || len(list) != 1 || list[0].Waiting.N != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// Older events are not read, so the finding does not speak of them.
func TestMessagesForAnUnknownReceiverAreThoseOfTheNewestEvents(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	l, err := ledger.New(t.Context(), db, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	db.MustExec(`insert into prescient.schedule (id, crontab, anchor, notify)
		values ('a', '@daily', now(), 'early'), ('b', '@daily', now(), 'none'), ('c', '@daily', now(), 'phone')`)
	for _, test := range []struct{ fill, early, none, phone string }{
		{
			`insert into prescient.event_outbox (id, source, type, written_at)
				select n, 's', 'prescient.notify.' || case when n > 1 then 'phone' else 'early' end, timestamptz '2030-03-01 12:00:00Z' + n * interval '1 minute'
				from generate_series(1, 3) as n`,
			"1 message for it is in the outbox, the oldest since 2030-03-01T12:01", "no message was written for it yet",
			"2 messages for it are in the outbox, the oldest since 2030-03-01T12:02",
		},
		{
			`insert into prescient.event_outbox (id, source, type) select n, 's', 'order.late' from generate_series(4, 10002) as n`,
			"no message for it is among the newest 10,000 events of the outbox. Add", "no message for it is among the newest 10,000 events of the outbox. Add",
			"1 message for it is among the newest 10,000 events of the outbox, the oldest since 2030-03-01T12:03",
		},
	} {
		db.MustExec(test.fill)
		report, err := health.Check(t.Context(), l, time.Time{}, health.Thresholds{}, func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, f := range report.Findings {
			if f.Condition == "receivers" {
				found[f.About] = f.Text
			}
		}
		for receiver, want := range map[string]string{"early": test.early, "none": test.none, "phone": test.phone} {
			if !strings.Contains(found[receiver], want) {
				t.Errorf("%s: %s, want %s", receiver, found[receiver], want)
			}
		}
	}
}
