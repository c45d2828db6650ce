package view

import (
	"time"

	"github.com/prescient-go/prescient/internal/alert"
)

// Alert is alert.Known as JSON.
type Alert struct {
	Finding       string     `json:"finding"`        // the condition, a slash, and what it is about
	Text          string     `json:"text"`           // what is wrong
	Since         *time.Time `json:"since"`          // UTC; null: it is silenced, and not there
	ToldAt        *time.Time `json:"told_at"`        // UTC; null: no message has told it
	SilencedUntil *time.Time `json:"silenced_until"` // UTC; null: it is not silenced
	SilencedBy    string     `json:"silenced_by"`    // the actor; without one, the role; empty: it is not silenced
	Because       string     `json:"because"`        // the reason of the silence; empty: none
}

// NewAlerts returns the findings that were told and are not over, and those that are silenced.
func NewAlerts(list []alert.Known, now time.Time) []Alert {
	views := []Alert{}
	for _, k := range list {
		v := Alert{
			Finding: k.Finding, Text: k.Text, Since: TimeOrNil(k.Since), ToldAt: TimeOrNil(k.ToldAt),
			SilencedUntil: TimeOrNil(k.SilencedUntil), SilencedBy: k.By, Because: k.Because,
		}
		if !k.SilencedUntil.After(now) {
			v.SilencedUntil, v.SilencedBy, v.Because = nil, "", ""
		}
		if v.Since != nil || v.SilencedUntil != nil {
			views = append(views, v)
		}
	}
	return views
}
