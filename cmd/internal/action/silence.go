package action

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/alert"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
)

// Silence tells no person of a finding for a while.
type Silence struct {
	Finding string        `json:"finding"` // the condition, a slash, and what it is about
	For     duration.Text `json:"for"`     // default: 1h
	Because string        `json:"because"`
}

// DefaultSilence is how long a silence is by default.
const DefaultSilence = time.Hour

var silenceForm = form(Form{
	Name: "silence", Summary: "Tell no person of a finding for a while",
	Title: "Silence a finding", Verb: "Silence",
	Lead: "No message tells the finding for a while. These pages and status still show it.",
	Fields: []Field{
		{
			Name: "finding", Label: "Finding", Required: true,
			Hint: "Such as missed, failing/order.late or destinations/partner.",
		},
		{Name: "for", Label: "For", Hint: "Such as 30m, 2h or 7d.", Default: duration.Format(DefaultSilence)},
		becauseField,
	},
}, func(in *Input) Silence {
	return Silence{Finding: in.Text("finding"), For: in.duration("for"), Because: in.Text("because")}
})

// Target names the finding.
func (a Silence) Target() string { return a.Finding }

// span is for how long.
func (a Silence) span() time.Duration { return cmp.Or(time.Duration(a.For), DefaultSilence) }

func (a Silence) check(*Store) error {
	if a.For < 0 {
		return &jobs.FieldError{Field: "for", Message: "must be longer than 0"}
	}
	return cmp.Or(CheckText("finding", a.Finding), admin.ValidateBecause(a.Because))
}

func (a Silence) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	plan.Text = fmt.Sprintf("Tells no person of %s for %s, because: %s", a.Finding, duration.Format(a.span()), a.Because)
	before, err := tx.alertOf(ctx, a.Finding)
	if err == nil {
		err = tx.KnowFinding(ctx, a.Finding)
	}
	if plan.Fingerprint = before.SilencedUntil; before.SilencedUntil.After(tx.now()) {
		plan.Warnings = []string{fmt.Sprintf("It is silenced already. This takes the place of the silence by %s until %s, "+
			"because: %s", before.By, spoken.Instant(before.SilencedUntil), before.Because)}
	}
	return plan, err
}

// KnowFinding returns an error for a finding that there cannot be.
func (tx Tx) KnowFinding(ctx context.Context, finding string) error {
	known, err := tx.alertOf(ctx, finding)
	if err != nil || known.Finding != "" {
		return err
	}
	f, err := health.Named(finding)
	switch {
	case err != nil:
		return &RefusedError{err.Error()}
	case f.About == "":
		return tx.requireJob(ctx, f.Job)
	case f.Condition == "receivers":
		return tx.requireUnknown(ctx, f.About)
	}
	_, err = outbox.New(tx.DB, tx.Schema).Left(reserved.Caller{}, ctx, tx.Tx, f.About)
	return ForgetConsumer{f.About}.explain(ctx, tx, err)
}

// requireUnknown returns an error unless a rule or a schedule notifies a receiver that no run has.
func (tx Tx) requireUnknown(ctx context.Context, receiver string) error {
	list, err := tx.Ledger.In(reserved.Caller{}, tx.Tx).UnknownReceivers(ctx)
	if err != nil || slices.ContainsFunc(list, func(u ledger.UnknownReceiver) bool { return u.Name == receiver }) {
		return err
	}
	return refusef("each receiver %s that a rule or a schedule notifies is in the settings of a run",
		spoken.Word(receiver))
}

// alertOf returns a finding that was told or is silenced, or the zero value.
func (tx Tx) alertOf(ctx context.Context, finding string) (k alert.Known, err error) {
	list, err := alert.Read(ctx, tx.Tx, tx.Schema)
	if i := slices.IndexFunc(list, func(k alert.Known) bool { return k.Finding == finding }); i >= 0 {
		k = list[i]
	}
	return k, err
}

func (a Silence) do(ctx context.Context, tx Tx) (Report, error) {
	if err := tx.KnowFinding(ctx, a.Finding); err != nil {
		return nil, err
	}
	return tx.silence(ctx, a.Finding, a.span(), a.Because)
}

// silence silences a finding from now on, and reports on it.
func (tx Tx) silence(ctx context.Context, finding string, span time.Duration, because string) (Report, error) {
	if err := alert.Silence(ctx, tx.Tx, tx.Schema, finding, span, because); err != nil {
		return nil, err
	}
	known, err := tx.alertOf(ctx, finding)
	return Silenced{finding, &known.SilencedUntil, span == 0}, err
}

// Silenced reports on Silence and EndSilence.
type Silenced struct {
	Finding       string     `json:"finding"`        // the condition, a slash, and what it is about
	SilencedUntil *time.Time `json:"silenced_until"` // UTC; null: it was not silenced
	ended         bool
}

// String says until when.
func (r Silenced) String() string {
	switch {
	case r.ended:
		return r.Finding + " is silenced no more"
	case r.SilencedUntil == nil:
		return r.Finding + " is not silenced: nothing was changed"
	}
	return fmt.Sprintf("%s is silenced until %s", r.Finding, spoken.Instant(*r.SilencedUntil))
}

// EndSilence lets persons be told of a finding again.
type EndSilence struct {
	Finding string `json:"finding"`
}

var endSilenceForm = form(Form{
	Name: "end silence", Summary: "Let persons be told of a finding again",
	Title: "End a silence", Verb: "End",
	Lead:   "If the finding is there, the next look tells it.",
	Fields: []Field{{Name: "finding", Label: "Finding", Required: true, Fixed: true}},
}, func(in *Input) EndSilence { return EndSilence{Finding: in.Text("finding")} })

// Target names the finding.
func (a EndSilence) Target() string { return a.Finding }

func (a EndSilence) check(*Store) error { return CheckText("finding", a.Finding) }

func (a EndSilence) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	known, err := tx.silenced(ctx, a.Finding)
	plan.Fingerprint = known.SilencedUntil
	if plan.Nothing = known.SilencedUntil.IsZero(); plan.Nothing {
		plan.Text = a.Finding + " is not silenced"
		return plan, err
	}
	plan.Text = fmt.Sprintf("Ends the silence of %s, which %s has made until %s, because: %s", a.Finding, known.By,
		spoken.Instant(known.SilencedUntil), known.Because)
	return plan, err
}

// silenced returns a finding that is silenced, or the zero value. It refuses a finding that there cannot be.
func (tx Tx) silenced(ctx context.Context, finding string) (alert.Known, error) {
	known, err := tx.alertOf(ctx, finding)
	if err == nil && !known.SilencedUntil.After(tx.now()) {
		known, err = alert.Known{}, tx.KnowFinding(ctx, finding)
	}
	return known, err
}

func (a EndSilence) do(ctx context.Context, tx Tx) (Report, error) {
	known, err := tx.silenced(ctx, a.Finding)
	if err != nil {
		return nil, err
	}
	if known.SilencedUntil.IsZero() {
		return Silenced{Finding: a.Finding}, nil
	}
	return tx.silence(ctx, a.Finding, 0, "")
}
