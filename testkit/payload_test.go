package testkit_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/testkit"
)

// A payload has what other tables say when the step fires, and no write of theirs lets the row wait for another slot.
func TestThePayloadOfARuleHasValuesOfOtherTables(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, time.March, 2, 8, 0, 0, 0, time.UTC)
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
	kit.DB.MustExec(`create table customers (id bigint primary key, "Name" text);
		create table invoices (id bigint primary key, customer_id bigint, amount numeric, sent_at timestamptz, paid_at timestamptz);
		create table log (id bigint, payload jsonb);
		insert into customers values (7, 'Ada'); insert into invoices values (1, 7, 100, '2026-03-02 08:00Z'), (2, 8, 50, '2026-03-02 08:00Z')`)
	kit.Rules(rulesFile(t, `rules:
  - name: invoice.unpaid
    table: public.invoices
    key: id
    since: sent_at
    done: paid_at
    payload:
      - amount
      - customer: (select c."Name" from public.customers c where c.id = invoices.customer_id)
        gross: round(amount * 1.19, 2)
      - of: jsonb_build_object('sent', sent_at::date)
    steps: [{after: 1d, event: invoice.unpaid, sql: "insert into public.log values ($key, $payload)"}]
`))
	kit.DB.MustExec("update customers set \"Name\" = 'Grace' where id = 7")
	kit.RunFor(2 * day)
	got := map[string]string{}
	for _, e := range kit.Events() {
		var data struct{ Payload json.RawMessage }
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer // without the spaces of jsonb
		if err := json.Compact(&text, data.Payload); err != nil {
			t.Fatal(err)
		}
		got[e.Subject] = text.String()
	}
	want := map[string]string{
		"invoices/1": `{"amount":100,"customer":"Grace","gross":119.00,"of":{"sent":"2026-03-02"}}`,
		"invoices/2": `{"amount":50,"customer":null,"gross":59.50,"of":{"sent":"2026-03-02"}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var logged int
	if err := kit.DB.Get(&logged, "select count(*) from log where payload ->> 'customer' = 'Grace' or payload ->> 'gross' = '59.50'"); err != nil || logged != 2 {
		t.Errorf("%d statements had the payload, %v", logged, err)
	}
}
