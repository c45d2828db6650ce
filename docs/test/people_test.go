package docs_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/receiver"
	"github.com/prescient-go/prescient/internal/receiver/receivertest"
	"github.com/prescient-go/prescient/internal/rule"
)

// block returns the block of a page that is the content of a file.
func named(t *testing.T, page, name string) string {
	t.Helper()
	for _, b := range fenced(t, page) {
		if b.name == name {
			return b.text
		}
	}
	t.Fatalf("%s has no block %s", page, name)
	return ""
}

// Each address of the page is tried, with a server on the loopback in place of the service.
func TestTheReceiversOfThePageSendWhatTheirServicesTake(t *testing.T) {
	t.Parallel()
	var file struct{ Receivers map[string]string }
	if err := yaml.Unmarshal([]byte(named(t, "people.md", "receivers.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	web, mail := receivertest.NewWeb(t, nil), receivertest.NewSMTP(t)
	local := strings.NewReplacer("slack://hooks.slack.com", "slack+http://"+web.Host(), "events.pagerduty.com", web.Host(),
		"pagerduty:", "pagerduty+http:", "ntfy://ntfy.sh", "ntfy+http://"+web.Host(), "user:password@mail.example.com:587", mail.Addr,
		"/?from", "/?tls=off&from")
	names := slices.Sorted(maps.Keys(file.Receivers))
	for _, name := range names {
		if _, err := receiver.Open(file.Receivers[name], receiver.Config{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r, err := receiver.Open(local.Replace(file.Receivers[name]), receiver.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Send(t.Context(), receiver.Message{ID: "1", Message: message.Message{Text: "Order 42", About: "42"}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = r.Close()
	}
	got := web.Got()
	slices.Sort(got)
	want := []string{
		`/ {"message":"Order 42","topic":"my-secret-topic"}`,
		`/services/T0000/B0000/XXXXXXXX {"text":"Order 42"}`,
		`/v2/enqueue {"dedup_key":"42","event_action":"trigger","payload":{"custom_details":{"text":"Order 42"},"severity":"error","source":"prescient","summary":"Order 42"},"routing_key":"ROUTINGKEY"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]receivertest.Mail{{To: []string{"ops@example.com"}, Subject: "Order 42", Body: "Order 42"}}, mail.Mails()); diff != "" {
		t.Error(diff)
	}
}

func TestTheRuleOfThePageNamesItsReceivers(t *testing.T) {
	t.Parallel()
	file, err := rule.Parse(strings.NewReader(named(t, "people.md", "rules.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	receivers := named(t, "people.md", "receivers.yaml")
	for _, s := range file.Rules[0].Steps {
		if !strings.Contains(receivers, "  "+s.Receiver+": ") {
			t.Errorf("there is no receiver %q", s.Receiver)
		}
	}
}

// The page lists every service.
func TestThePageHasEachServiceOfMessages(t *testing.T) {
	t.Parallel()
	page := readPage(t, "people.md")
	for _, service := range receiver.Services() {
		if service != "http" && !strings.Contains(page, "`"+service+":") {
			t.Errorf("people.md has no %s:", service)
		}
	}
}
