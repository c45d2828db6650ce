package action

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/slots/ledger"
)

// ForgetConsumer removes a consumer of the outbox, with the events that its destination has refused.
type ForgetConsumer struct {
	Consumer string `json:"consumer"` // its name
}

var forgetConsumerForm = form(Form{
	Name: "forget consumer", Summary: "Forget a consumer of the outbox",
	Title: "Forget a consumer", Verb: "Forget",
	Lead:   "The outbox no longer keeps events for the consumer. This cannot be undone.",
	Fields: []Field{{Name: "consumer", Label: "Consumer", Required: true, Fixed: true, Names: Consumers}},
}, func(in *Input) ForgetConsumer { return ForgetConsumer{Consumer: in.Text("consumer")} })

// Target is the consumer.
func (a ForgetConsumer) Target() string { return a.Consumer }

func (a ForgetConsumer) check(*Store) error { return CheckText("consumer", a.Consumer) }

func (a ForgetConsumer) final() {}

func (a ForgetConsumer) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	left, err := outbox.New(tx.DB, tx.Schema).Left(reserved.Caller{}, ctx, tx.Tx, a.Consumer)
	if err != nil {
		return plan, a.explain(ctx, tx, err)
	}
	// Events come between preview and confirmation, so their number is not confirmed.
	var lost []string
	if left.Events > 0 {
		lost = append(lost, leftOf(left.Events).Of("event of the outbox", "events of the outbox"))
	}
	if left.Refused > 0 {
		lost = append(lost, leftOf(left.Refused).Of("refused event", "refused events"))
	}
	plan.Text = fmt.Sprintf("Forgets consumer %s, for which no event waits", a.Consumer)
	if len(lost) > 0 {
		plan.Text = fmt.Sprintf("Forgets consumer %s. It will not get %s", a.Consumer, strings.Join(lost, " and "))
	}
	again := "If it acknowledges a position again, the outbox keeps events for it again."
	if left.Destination {
		again = "If the settings still have it, it begins again with the events that are written from then on."
	}
	plan.Warnings = []string{again}
	return plan, nil
}

// leftOf is a number of outbox.Left, which stops to count above MostLeft.
func leftOf(n int64) ledger.Count {
	return ledger.Count{N: min(n, outbox.MostLeft), AtLeast: n > outbox.MostLeft}
}

func (a ForgetConsumer) do(ctx context.Context, tx Tx) (Report, error) {
	err := outbox.New(tx.DB, tx.Schema).ForgetTx(ctx, tx.Tx, a.Consumer)
	return ForgottenConsumer(a), a.explain(ctx, tx, err)
}

// explain names the consumers that there are if there is no such one.
func (a ForgetConsumer) explain(ctx context.Context, tx Tx, err error) error {
	if !errors.Is(err, outbox.ErrNoConsumer) {
		return err
	}
	return refusef("there is no consumer %s%s", spoken.Word(a.Consumer),
		OtherConsumers(ctx, outbox.New(tx.DB, tx.Schema), tx.Self))
}

// OtherConsumers names the consumers that there are, or the command that lists them.
func OtherConsumers(ctx context.Context, box *outbox.Outbox, self string) string {
	list, err := box.Consumers(ctx)
	if err != nil {
		return fmt.Sprintf("; list them with: %s events consumers", self)
	}
	return cli.Known("consumer", seq.Map(list, func(c outbox.Consumer) string { return c.Name }))
}

// ForgottenConsumer reports on ForgetConsumer.
type ForgottenConsumer struct {
	Consumer string `json:"consumer"` // its name
}

// String names the consumer.
func (f ForgottenConsumer) String() string { return "consumer " + f.Consumer + " is forgotten" }
