package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestReceiversHaveNamesAndTheirAddressesAreSecrets(t *testing.T) {
	const secret = "s3cr3t"
	path := writeFile(t, isolate(t), "receivers.yaml", `
receivers:
  ops: slack://hooks.slack.com/services/T0/B0/s3cr3t
  mail: {url: "smtp://app:s3cr3t@mail.example.com:587/?from=a@example.com&to=b@example.com", per_minute: 5}
  oncall: pagerduty://s3cr3t@events.pagerduty.com
  phone: ntfy://ntfy.sh/s3cr3t
  file: file:///var/log/alerts.txt
`)
	loaded := mustLoad(t, "--config", path)
	var got []string
	for _, r := range loaded.Config.Receivers {
		got = append(got, fmt.Sprintf("%s %s %d", r.Name, r.URL, r.PerMinute))
	}
	diff(t, []string{
		"file file:///var/log/alerts.txt 30", "mail smtp://mail.example.com:587/*** 5", "oncall pagerduty://events.pagerduty.com/*** 30",
		"ops slack://hooks.slack.com/*** 30", "phone ntfy://ntfy.sh/*** 30",
	}, got)
	diff(t, "slack://hooks.slack.com/services/T0/B0/s3cr3t", loaded.Config.Receivers[3].URL.Reveal())
	if text := fmt.Sprintf("%v %+v %#v %v", loaded, loaded, loaded, loaded.Entries); strings.Contains(text, secret) {
		t.Errorf("a secret is shown: %s", text)
	}
}

func TestAReceiverThatIsWrongIsRefusedWithoutItsAddress(t *testing.T) {
	for content, want := range map[string]string{
		"receivers: {Ops.Team: s3cr3t}":                                       "set",
		"receivers: {ops: s3cr3t}":                                            "set url of receivers entry 1 (ops)",
		"receivers: {ops: {per_minute: 1}}":                                   "missing, want the URL that the service gives",
		"receivers: {ops: {url: stdout:, per_minute: 0}}":                     "want a whole number of at least 1",
		"receivers: {ops: {url: stdout:, digest: s3cr3t}}":                    "unknown key",
		"receivers: {ops: 'slakc://hooks.slack.com/s3cr3t'}":                  `set url of receivers entry 1 (ops) from file`,
		"receivers: {ops: 'ntfy://ntfy.sh:99999/s3cr3t'}":                     "got ntfy://ntfy.sh:99999/***: want a port from 1 to 65535",
		"receivers: {ops: 'smtp://u:s3cr3t@m.example.com:99999/?from=a@b.c'}": "want a port from 1 to 65535",
		"receivers: {ops: 'matrix://s3cr3t@m.example.com'}":                   "want matrix://TOKEN@matrix.example.com/!ROOM:example.com",
		"receivers: {ops: 'matrix://s3cr3t@m.example.com/room'}":              "want matrix://TOKEN@matrix.example.com/!ROOM:example.com",
		"receivers: {ops: 'matrix://s3cr3t@m.example.com/#room'}":             "want # in the address as %23",
		"receivers: {ops: 'opsgenie://s3cr3t%0A@api.opsgenie.com'}":           "want no control character",
		"receivers: {ops: 'zulip://z.example.com/x?api_key=s3cr3t%00'}":       "want no control character",
		"receivers: [slack://hooks.slack.com/services/x]":                     "want a table of names",
	} {
		t.Run(content, func(t *testing.T) {
			path := writeFile(t, isolate(t), "receivers.yaml", content)
			_, err := load(parse(t, "--config", path), nil)
			contains(t, err, want)
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}
