package receiver_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/receiver"
	"github.com/prescient-go/prescient/internal/receiver/receivertest"
	"github.com/prescient-go/prescient/jobs/event"
)

var loopback = receiver.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}

func open(t *testing.T, address string, cfg receiver.Config) receiver.Receiver {
	t.Helper()
	r, err := receiver.Open(address, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func text(id, text string) receiver.Message {
	return receiver.Message{ID: id, Message: message.Message{Text: text, About: "problem 1"}}
}

func TestEachServiceGetsTheRequestThatItDocuments(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"slack+http://HOST/services/T0/B0/x":                                    `/services/T0/B0/x {"text":"Order 42 &lt;late&gt;\nsince 11:04"}`,
		"mattermost+http://HOST/hooks/x":                                        `/hooks/x {"text":"Order 42 <late>\nsince 11:04"}`,
		"rocketchat+http://HOST/hooks/x":                                        `/hooks/x {"text":"Order 42 <late>\nsince 11:04"}`,
		"googlechat+http://HOST/v1/x?key=y":                                     `/v1/x?key=y {"text":"Order 42 <late>\nsince 11:04"}`,
		"discord+http://HOST/api/webhooks/1/x":                                  `/api/webhooks/1/x {"allowed_mentions":{"parse":[]},"content":"Order 42 <late>\nsince 11:04"}`,
		"telegram+http://12:ab@HOST/-100":                                       `/bot12:ab/sendMessage {"chat_id":"-100","text":"Order 42 <late>\nsince 11:04"}`,
		"ntfy+http://HOST/alerts":                                               `/ {"message":"Order 42 <late>\nsince 11:04","topic":"alerts"}`,
		"gotify+http://HOST/x":                                                  `/message?token=x {"message":"Order 42 <late>\nsince 11:04"}`,
		"pushover+http://token@HOST/user":                                       `/1/messages.json {"message":"Order 42 <late>\nsince 11:04","token":"token","user":"user"}`,
		"pagerduty+http://key@HOST":                                             `/v2/enqueue {"dedup_key":"problem 1","event_action":"trigger","payload":{"custom_details":{"text":"Order 42 <late>\nsince 11:04"},"severity":"error","source":"prescient","summary":"Order 42 <late>"},"routing_key":"key"}`,
		"teams+http://HOST/workflows/x?sig=y":                                   `/workflows/x?sig=y {"attachments":[{"content":{"$schema":"http://adaptivecards.io/schemas/adaptive-card.json","body":[{"text":"Order 42 <late>\nsince 11:04","type":"TextBlock","wrap":true}],"type":"AdaptiveCard","version":"1.4"},"contentType":"application/vnd.microsoft.card.adaptive"}],"type":"message"}`,
		"opsgenie+http://key@HOST":                                              `POST GenieKey key /v2/alerts {"alias":"problem 1","description":"Order 42 <late>\nsince 11:04","message":"Order 42 <late>","source":"prescient"}`,
		"matrix+http://syt_x@HOST/!ab:HOME":                                     `PUT Bearer syt_x /_matrix/client/v3/rooms/%21ab:HOME/send/m.room.message/6b86b273ff34fce19d6b804eff5a3f57 {"body":"Order 42 <late>\nsince 11:04","msgtype":"m.text"}`,
		"zulip+http://HOST/api/v1/external/slack_incoming?api_key=x&stream=ops": `/api/v1/external/slack_incoming?api_key=x&stream=ops {"text":"Order 42 <late>\nsince 11:04"}`,
		"http://HOST/hook":                                                      `/hook {"id":"1","text":"Order 42 <late>\nsince 11:04","about":"problem 1","over":false}`,
	} {
		service, _, _ := strings.Cut(address, ":")
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			web := receivertest.NewWeb(t, nil)
			r := open(t, strings.ReplaceAll(address, "HOST", web.Host()), loopback)
			answer, err := r.Send(t.Context(), text("1", "Order 42 <late>\nsince 11:04"))
			if err != nil || answer != "ok" {
				t.Fatalf("%q, %v", answer, err)
			}
			if diff := gocmp.Diff([]string{want}, web.Got()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Teams takes 28 KB of JSON, in which a < of the text must not have six bytes.
func TestAMessageFullOfMarkupIsNoLongerThanItsServiceTakes(t *testing.T) {
	t.Parallel()
	web := receivertest.NewWeb(t, nil)
	r := open(t, "teams+http://"+web.Host()+"/workflows/x", loopback)
	if _, err := r.Send(t.Context(), text("1", strings.Repeat("<p>&</p>", r.Most()/8))); err != nil {
		t.Fatal(err)
	}
	if got := web.Got(); len(got) != 1 || len(got[0]) > 28_000 {
		t.Errorf("%d messages, the first of %d bytes", len(got), len(got[0]))
	}
}

func TestAServiceThatKeepsIncidentsResolvesWhatIsOver(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"pagerduty+http://key@HOST":                    `/v2/enqueue {"dedup_key":"problem 1","event_action":"resolve","routing_key":"key"}`,
		"opsgenie+http://key@HOST/jsm/ops/integration": `POST GenieKey key /jsm/ops/integration/v2/alerts/problem%201/close?identifierType=alias {"source":"prescient"}`,
	} {
		web := receivertest.NewWeb(t, nil)
		m := text("2", "It is over")
		m.Over = true
		if _, err := open(t, strings.Replace(address, "HOST", web.Host(), 1), loopback).Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]string{want}, web.Got()); diff != "" {
			t.Error(diff)
		}
	}
}

// PagerDuty takes 255 characters, and OpsGenie 512.
func TestALongKeyNamesTheSameIncidentWhenItIsOver(t *testing.T) {
	t.Parallel()
	for address, name := range map[string]*regexp.Regexp{
		"pagerduty+http://key@HOST": regexp.MustCompile(`"dedup_key":"([^"]{1,255})"`),
		"opsgenie+http://key@HOST":  regexp.MustCompile(`(?:"alias":"|alerts/)([^"/]{1,512})["/]`),
	} {
		web := receivertest.NewWeb(t, nil)
		r := open(t, strings.Replace(address, "HOST", web.Host(), 1), loopback)
		m := text("1", "x")
		m.About = strings.Repeat("k", 600)
		for range 2 {
			if _, err := r.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			m.Over = true
		}
		began, over := name.FindStringSubmatch(web.Got()[0]), name.FindStringSubmatch(web.Got()[1])
		if began == nil || over == nil || began[1] != over[1] {
			t.Errorf("%s: %q", address, web.Got())
		}
	}
}

// A person of Telegram, a topic of ntfy or a room of Matrix comes from the row.
func TestAServiceWithRecipientsSendsToThatOfTheMessage(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"telegram+http://12:ab@HOST/-100":   `/bot12:ab/sendMessage {"chat_id":"#own","text":"x"}`,
		"ntfy+http://HOST/alerts":           `/ {"message":"x","topic":"#own"}`,
		"matrix+http://syt_x@HOST/!ab:HOME": `PUT Bearer syt_x /_matrix/client/v3/rooms/%23own/send/m.room.message/6b86b273ff34fce19d6b804eff5a3f57 {"body":"x","msgtype":"m.text"}`,
		"zulip+http://HOST/hook":            "",
	} {
		web := receivertest.NewWeb(t, nil)
		m := text("1", "x")
		m.To = "#own"
		_, err := open(t, strings.Replace(address, "HOST", web.Host(), 1), loopback).Send(t.Context(), m)
		if got := strings.Join(web.Got(), "\n"); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", address, got, err)
		}
	}
}

func TestAQuietMessageGoesToAServiceThatKeepsAnIncidentAlone(t *testing.T) {
	t.Parallel()
	data, _ := json.Marshal(message.Message{Text: "It is over", About: "problem 1", Over: true, Quiet: true})
	quiet := []event.Event{{ID: "1", Source: "test", Type: message.Type("ops"), Data: data}}
	for address, want := range map[string][]string{
		"pagerduty+http://key@HOST":    {`/v2/enqueue {"dedup_key":"problem 1","event_action":"resolve","routing_key":"key"}`},
		"slack+http://HOST/services/x": nil,
	} {
		web := receivertest.NewWeb(t, nil)
		p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: open(t, strings.Replace(address, "HOST", web.Host(), 1), loopback)})
		if err := p.Publish(t.Context(), quiet); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if diff := gocmp.Diff(strings.Join(want, ""), strings.Join(web.Got(), "")); diff != "" {
			t.Errorf("%s: %s", address, diff)
		}
	}
}

// messageOf returns the event of a message.
func messageOf(id string, m message.Message) event.Event {
	data, _ := json.Marshal(m)
	return event.Event{ID: id, Source: "test", Type: message.Type("ops"), Subject: m.About, Data: data}
}

// What is above the bound of a minute is one incident. That something is over ends its own incident, and no other.
func TestMessagesThatAreToldTogetherAreAnIncidentOfTheirOwn(t *testing.T) {
	t.Parallel()
	web := receivertest.NewWeb(t, nil)
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: open(t, "pagerduty+http://key@"+web.Host(), loopback), PerMinute: 2})
	late := func(n string) event.Event {
		return messageOf("late"+n, message.Message{Text: "late " + n, About: "order " + n})
	}
	list := []event.Event{messageOf("over7", message.Message{Text: "over", About: "order 7", Over: true}), late("1"), late("2"), late("3")}
	if err := p.Publish(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range web.Got() {
		var is struct {
			Action string `json:"event_action"`
			Key    string `json:"dedup_key"`
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "/v2/enqueue ")), &is); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(is.Key, "order") {
			is.Key = "its own"
		}
		got = append(got, is.Action+" "+is.Key)
	}
	if diff := gocmp.Diff([]string{"resolve order 7", "trigger order 1", "trigger its own"}, got); diff != "" {
		t.Error(diff)
	}
}

// A service such as Matrix takes a message with the same id once.
func TestMessagesThatAreToldTogetherHaveAnotherIDThanEachOfThem(t *testing.T) {
	t.Parallel()
	web := receivertest.NewWeb(t, nil)
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: open(t, "http://"+web.Host(), loopback)})
	for _, list := range [][]event.Event{events("1 a one>"), events("1 a one>", "2 b two>"), events("1 a one>", "2 b two>")} {
		if err := p.Publish(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	for _, line := range web.Got() {
		ids = append(ids, regexp.MustCompile(`"id":"(.*?)"`).FindStringSubmatch(line)[1])
	}
	if len(ids) != 3 || ids[0] != "test#1" || ids[1] == ids[0] || ids[1] != ids[2] {
		t.Errorf("%q", ids)
	}
}

func TestMessagesOfOneIDFromTwoStoresAreNotTheSame(t *testing.T) {
	t.Parallel()
	web := receivertest.NewWeb(t, nil)
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: open(t, "http://"+web.Host(), loopback)})
	for _, source := range []string{"prescient:/one", "prescient:/two"} {
		list := events("report-42 a late>")
		list[0].Source = source
		if err := p.Publish(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for _, field := range []string{"id", "about"} {
		var got []string
		for _, line := range web.Got() {
			got = append(got, regexp.MustCompile(`"` + field + `":"(.*?)"`).FindStringSubmatch(line)[1])
		}
		if len(got) != 2 || got[0] == got[1] {
			t.Errorf("%s: %q", field, got)
		}
	}
}

func TestAMessageThatAServiceAnswersWithAnErrorHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	broken := ""
	web := receivertest.NewWeb(t, func(_, body string) (int, string) {
		if strings.Contains(body, "poison") || strings.Contains(body, broken) && broken != "" {
			return http.StatusInternalServerError, ""
		}
		return http.StatusOK, "ok"
	})
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: open(t, "slack+http://"+web.Host()+"/x", loopback)})
	err := p.Publish(t.Context(), events("1 a poison", "2 a next", "3 b one", "4 c poison"))
	errs := event.Errors(err, 4)
	if errs[0] == nil || errors.Is(errs[0], event.ErrNotSent) || !errors.Is(errs[1], event.ErrBlocked) || errs[2] != nil || !errors.Is(errs[3], event.ErrNotSent) {
		t.Errorf("%v", errs)
	}
	broken = "text" // everything: the service is down
	err = p.Publish(t.Context(), events("1 a one", "2 b two", "3 c three", "4 d four"))
	if _, partial := errors.AsType[*event.PartialError](err); err == nil || partial {
		t.Errorf("%v", err)
	}
	if got := len(web.Got()); got != 1 {
		t.Errorf("%d were sent", got)
	}
}

func TestManyMessagesThatAServiceAnswersWithAnErrorHoldBackNoOther(t *testing.T) {
	t.Parallel()
	web := receivertest.NewWeb(t, func(_, body string) (int, string) {
		if strings.Contains(body, "poison") {
			return http.StatusInternalServerError, ""
		}
		return http.StatusOK, "ok"
	})
	to := open(t, "slack+http://"+web.Host()+"/x", loopback)
	lines := []string{"1 a poison", "2 b poison", "3 c poison", "4 d poison", "5 e poison", "6 e behind", "7 f one", "8 g two"}
	var errs []error
	await.True(t, "another message to be sent", func() bool {
		p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: to, PerMinute: 1000})
		errs = event.Errors(p.Publish(t.Context(), events(lines...)), len(lines))
		return errs[6] == nil || errs[7] == nil
	})
	for i := range 3 {
		if errs[i] == nil || errors.Is(errs[i], event.ErrNotSent) {
			t.Errorf("message %d is not refused: %v", i+1, errs[i])
		}
	}
	if !errors.Is(errs[5], event.ErrNotSent) {
		t.Errorf("a message behind one that was not sent: %v", errs[5])
	}
}

func TestAMailGoesToTheReceiverOrToItsOwnRecipient(t *testing.T) {
	t.Parallel()
	server := receivertest.NewSMTP(t)
	r := open(t, "smtp://"+server.Addr+"/?tls=off&from=prescient@example.com&to=ops@example.com&to=second@example.com", loopback)
	answer, err := r.Send(t.Context(), text("1", "Bestellung 42 wartet: für Zoë\nSeit 11:04.\n.\nEnde"))
	if err != nil || !strings.Contains(answer, "queued as 1") {
		t.Fatalf("%q, %v", answer, err)
	}
	m := text("2", "Your order is late")
	m.To = "Ada <ada@example.com>"
	if _, err := r.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Send(t.Context(), text("3", "2 messages:\n\none\n\ntwo")); err != nil {
		t.Fatal(err)
	}
	want := []receivertest.Mail{
		{To: []string{"ops@example.com", "second@example.com"}, Subject: "Bestellung 42 wartet: für Zoë", Body: "Bestellung 42 wartet: für Zoë\nSeit 11:04.\n.\nEnde"},
		{To: []string{"ada@example.com"}, Subject: "Your order is late", Body: "Your order is late"},
		{To: []string{"ops@example.com", "second@example.com"}, Subject: "2 messages", Body: "2 messages:\n\none\n\ntwo"},
	}
	if diff := gocmp.Diff(want, server.Mails()); diff != "" {
		t.Error(diff)
	}
}

func TestAMailHasHTMLBesideItsText(t *testing.T) {
	t.Parallel()
	server := receivertest.NewSMTP(t)
	r := open(t, "smtp://"+server.Addr+"/?tls=off&from=prescient@example.com&to=ops@example.com", loopback)
	m := text("1", "Order 42 of Zoë waits\n\nSince 11:04")
	m.HTML = "<p>Order <b>42</b> of Zoë waits</p>\n.\n<p>" + strings.Repeat("Since 11:04. ", 100) + "</p>"
	if _, err := r.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	want := []receivertest.Mail{{To: []string{"ops@example.com"}, Subject: "Order 42 of Zoë waits", Body: m.Text, HTML: m.HTML}}
	if diff := gocmp.Diff(want, server.Mails()); diff != "" {
		t.Error(diff)
	}
}

func TestADigestHasTheHTMLOfItsMessages(t *testing.T) {
	t.Parallel()
	server := receivertest.NewSMTP(t)
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: open(t, "smtp://"+server.Addr+"/?tls=off&from=prescient@example.com&to=ops@example.com", loopback)})
	var list []event.Event
	for i, page := range []string{"<p>one</p>", "", "<p>three</p>"} {
		m := message.Message{Text: fmt.Sprintf("order %d < 3", i+1), HTML: page, SendAt: &time.Time{}}
		data, _ := json.Marshal(m)
		list = append(list, event.Event{ID: fmt.Sprint(i), Source: "test", Type: message.Type("ops"), Data: data})
	}
	if err := p.Publish(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	want := []receivertest.Mail{{
		To: []string{"ops@example.com"}, Subject: "3 messages", Body: "3 messages:\n\norder 1 < 3\n\norder 2 < 3\n\norder 3 < 3",
		HTML: "<p>3 messages:</p>\n<hr>\n<p>one</p>\n<hr>\n<div style=\"white-space: pre-wrap\">order 2 &lt; 3</div>\n<hr>\n<p>three</p>",
	}}
	if diff := gocmp.Diff(want, server.Mails()); diff != "" {
		t.Error(diff)
	}
}

func TestARecipientThatCannotGetMailIsRefused(t *testing.T) {
	t.Parallel()
	server := receivertest.NewSMTP(t)
	server.Refuse = func(to string) string {
		return map[string]string{"gone@example.com": "550 5.1.1 unknown", "full@example.com": "452 4.2.2 mailbox full"}[to]
	}
	r := open(t, "smtp://"+server.Addr+"/?tls=off&from=prescient@example.com", loopback)
	for _, to := range []string{
		"gone@example.com", "full@example.com", "", "no address", "a@example.com\r\nBcc: b@example.com",
		"\"a\r\nBcc: b@example.com\" <a@example.com>", "a@example.com, b@example.com", "all: a@example.com, b@example.com;",
	} {
		m := text("1", "x")
		m.To = to
		if _, err := r.Send(t.Context(), m); !errors.Is(err, event.ErrRefused) {
			t.Errorf("%q: %v", to, err)
		}
	}
	if mails := server.Mails(); len(mails) > 0 {
		t.Errorf("%v", mails)
	}
}

func TestAnErrorSaysWhatToWriteIntoTheAddress(t *testing.T) {
	t.Parallel()
	server := receivertest.NewSMTP(t)
	server.Refuse = func(to string) string { return map[string]string{"gone@example.com": "550 5.1.1 unknown"}[to] }
	web := receivertest.NewWeb(t, func(string, string) (int, string) { return http.StatusOK, "" })
	const mail = "?from=prescient@example.com&to=ops@example.com"
	for _, c := range []struct {
		address string
		cfg     receiver.Config
		want    string
	}{
		{"smtp://" + server.Addr + "/" + mail, loopback, "add tls=off to the address"},
		{"smtps://" + server.Addr + "/" + mail, loopback, "write smtp in place of smtps"},
		{"smtp://u:p@" + server.Addr + "/" + mail + "&tls=off", loopback, "leave out USER:PASSWORD"},
		{"ntfy://" + web.Host() + "/alerts", loopback, "such as ntfy+http"},
		{"ntfy+http://" + web.Host() + "/alerts", receiver.Config{}, "add 127.0.0.1/32 to events.allowed_networks"},
		{"smtp://" + server.Addr + "/" + mail, receiver.Config{}, "add 127.0.0.1/32 to events.allowed_networks"},
	} {
		_, err := open(t, c.address, c.cfg).Send(t.Context(), text("1", "x"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.address, err, c.want)
		}
	}
	m := text("1", "x")
	m.To = "gone@example.com"
	_, err := open(t, "smtp://"+server.Addr+"/"+mail+"&tls=off", loopback).Send(t.Context(), m)
	if want := "refused: send mail by 127.0.0.1: 550 5.1.1 unknown (to <gone@example.com>)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A mail server that hangs has refused nothing, and is left at once when the context ends.
func TestAMailServerThatHangsIsLeftWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"EHLO", "MAIL", "RCPT", "DATA", "."} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			server := receivertest.NewSMTP(t)
			errStopped := errors.New("stopped by a test")
			ctx, cancel := context.WithCancelCause(t.Context())
			server.Hang = func(command string) bool {
				hangs := strings.HasPrefix(command, at)
				if hangs {
					cancel(errStopped)
				}
				return hangs
			}
			r := open(t, "smtp://"+server.Addr+"/?tls=off&from=prescient@example.com&to=ops@example.com", loopback)
			if _, err := r.Send(ctx, text("1", "x")); !errors.Is(err, errStopped) || errors.Is(err, event.ErrRefused) {
				t.Error(err)
			}
		})
	}
}

// A connection that breaks is no answer.
func TestAMailServerThatBreaksTheConnectionHasRefusedNothing(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"RCPT", "DATA", "."} {
		server := receivertest.NewSMTP(t)
		server.Break = func(command string) bool { return strings.HasPrefix(command, at) }
		r := open(t, "smtp://"+server.Addr+"/?tls=off&from=prescient@example.com&to=ops@example.com", loopback)
		if _, err := r.Send(t.Context(), text("1", "x")); err == nil || errors.Is(err, event.ErrRefused) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// A server that takes a mail and does not say goodbye has got the mail.
func TestAMailThatTheServerHasTakenIsSentWhateverFollows(t *testing.T) {
	t.Parallel()
	server := receivertest.NewSMTP(t)
	server.Break = func(command string) bool { return command == "RSET" || command == "QUIT" }
	r := open(t, "smtp://"+server.Addr+"/?tls=off&from=prescient@example.com&to=ops@example.com", loopback)
	if _, err := r.Send(t.Context(), text("1", "x")); err != nil || len(server.Mails()) != 1 {
		t.Errorf("%d mails, %v", len(server.Mails()), err)
	}
}

// The client says nothing to a server of smtps before TLS is there.
func TestSMTPSBeginsWithTLS(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan byte, 1)
	go func() {
		defer cancel()
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // of a test
		_, _ = io.WriteString(conn, "220 test\r\n")
		begin := make([]byte, 1)
		_, _ = io.ReadFull(conn, begin)
		first <- begin[0]
	}()
	r := open(t, "smtps://u:secret@"+listener.Addr().String()+"/?from=prescient@example.com&to=ops@example.com", loopback)
	if _, err := r.Send(ctx, text("1", "x")); err == nil {
		t.Error("sent")
	}
	const handshake = 0x16 // the type of a record of TLS
	if got := await.Receive(t, "the client", first); got != handshake {
		t.Errorf("it begins with %q", got)
	}
}

// A person gets a message once, whatever the service says after it has taken the message.
func TestAMessageWithA2xxAnswerIsSentWhateverTheBody(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"long": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 1<<20)) },
		"broken": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "half")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var taken atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				taken.Add(1)
				answer(w, r)
			}))
			t.Cleanup(server.Close)
			if _, err := open(t, server.URL+"/hook", loopback).Send(t.Context(), text("1", "x")); err != nil || taken.Load() != 1 {
				t.Errorf("taken %d times: %v", taken.Load(), err)
			}
		})
	}
}

// One recipient that a service refuses does not stop the receiver for others.
func TestAServiceRefusesAMessageBecauseOfItsOwnRecipient(t *testing.T) {
	t.Parallel()
	web := receivertest.NewWeb(t, func(_, body string) (int, string) {
		if strings.Contains(body, `"chat_id":"2"`) || strings.Contains(body, `"chat_id":"9"`) {
			return http.StatusForbidden, `{"ok":false,"description":"Forbidden: bot was blocked by the user"}`
		}
		return http.StatusOK, "{}"
	})
	r := open(t, "telegram+http://1:token@"+web.Host()+"/9", loopback)
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: r})
	errs := event.Errors(p.Publish(t.Context(), events("1 a two@2", "2 b three@3")), 2)
	if !errors.Is(errs[0], event.ErrRefused) || errs[1] != nil {
		t.Errorf("%v", errs)
	}
	if _, err := r.Send(t.Context(), text("3", "to the chat of the address")); err == nil || errors.Is(err, event.ErrRefused) {
		t.Errorf("%v", err)
	}
}

func TestAReceiverKeepsToTheAllowedNetworks(t *testing.T) {
	t.Parallel()
	web, server := receivertest.NewWeb(t, nil), receivertest.NewSMTP(t)
	for _, address := range []string{
		"slack+http://" + web.Host() + "/services/x", "smtp://" + server.Addr + "/?tls=off&from=a@example.com&to=b@example.com",
	} {
		_, err := open(t, address, receiver.Config{}).Send(t.Context(), text("1", "x"))
		if !errors.Is(err, egress.ErrAddress) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if len(web.Got())+len(server.Mails()) > 0 {
		t.Error("a message was sent")
	}
}

func TestAnErrorShowsNoSecretOfTheAddress(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3ts3cr3ts3cr3t"
	web := receivertest.NewWeb(t, func(path, _ string) (int, string) { return http.StatusForbidden, "no hook " + path })
	for _, address := range []string{
		"slack+http://HOST/services/" + secret, "telegram+http://1:" + secret + "@HOST/1", "gotify+http://HOST/" + secret,
		"pagerduty+http://" + secret + "@HOST", "pushover+http://" + secret + "@HOST/u", "ntfy+http://u:" + secret + "@HOST/t",
		"smtp://u:" + secret + "@127.0.0.1:1/?tls=off&from=a@example.com&to=b@example.com",
	} {
		_, err := open(t, strings.ReplaceAll(address, "HOST", web.Host()), loopback).Send(t.Context(), text("1", "x"))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{
		secret, "slacks://" + secret, "://" + secret, "slack:" + secret, "telegram://" + secret + "@h", "smtp://u:" + secret + "@h:99999/?from=a@b",
		"smtp://u:" + secret + "@h/?from=x", "smtp://u:" + secret + "@h/?from=a@b&tls=maybe", "smtp://h/?from=a@b&" + secret + "=1%", "https+http://h/" + secret,
		"pushover://" + secret, "gotify://h", "opsgenie://h", "matrix://h/!a:h", "matrix://" + secret + "@h", "ntfy://h", "pagerduty://h", "file:x", "smtp://h/?from=a@b&to=x", "https://a,b/",
	} {
		_, err := receiver.Open(address, receiver.Config{})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Some services quote the key or the whole request that they refuse.
func TestAnErrorShowsNoKeyThatTheAnswerQuotes(t *testing.T) {
	t.Parallel()
	const secret = "As3cr3ts3cr3ts3" // as long as a token of Gotify
	quoting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(req.Body).Decode(&body)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, "wrong key: ", req.Header.Get("Authorization"), body["routing_key"], body["token"], req.URL.Path, req.URL.Query()["token"])
	}))
	t.Cleanup(quoting.Close)
	for _, address := range []string{
		"opsgenie+http://KEY@HOST", "matrix+http://KEY@HOST/!a:HOST", "pagerduty+http://KEY@HOST", "pushover+http://KEY@HOST/u",
		"telegram+http://1:KEY@HOST/1", "gotify+http://HOST/KEY",
	} {
		to := strings.NewReplacer("KEY", secret, "HOST", quoting.Listener.Addr().String()).Replace(address)
		_, err := open(t, to, loopback).Send(t.Context(), text("1", "x"))
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "***") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestAFileGetsALineForEachMessage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "alerts.txt")
	r := open(t, "file://"+path, receiver.Config{})
	m := text("1", "Your order")
	m.To = "ada@example.com"
	for _, m := range []receiver.Message{text("1", "Order 42\nsince 11:04"), m} {
		if _, err := r.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "Order 42\n    since 11:04\nada@example.com: Your order\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// events returns the events of messages "id subject text", with a recipient behind @ and the time of a digest after a >.
func events(lines ...string) (list []event.Event) {
	for _, line := range lines {
		part := strings.Fields(line)
		m := message.Message{}
		rest, digest := strings.CutSuffix(part[2], ">")
		m.Text, m.To, _ = strings.Cut(rest, "@")
		if digest {
			m.SendAt = &time.Time{}
		}
		data, _ := json.Marshal(m)
		list = append(list, event.Event{ID: part[0], Source: "test", Type: message.Type("ops"), Subject: part[1], Data: data})
	}
	return list
}

// fake is a receiver that refuses the text "bad", and is down for the text "down".
type fake struct {
	got  []string
	most int // bytes of a text; 0: 1000
}

func (f *fake) Send(_ context.Context, m receiver.Message) (string, error) {
	switch {
	case strings.Contains(m.Text, "bad"):
		return "", fmt.Errorf("%w: 422", event.ErrRefused)
	case strings.Contains(m.Text, "down"):
		return "", errors.New("503")
	}
	f.got = append(f.got, strings.ReplaceAll(m.Text, "\n\n", "|")+"@"+m.To)
	return "", nil
}
func (f *fake) Most() int    { return cmp.Or(f.most, 1000) }
func (f *fake) Close() error { return nil }

func TestMessagesOfADigestAreOneForEachRecipient(t *testing.T) {
	t.Parallel()
	f := &fake{most: 100}
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: f})
	if err := p.Publish(t.Context(), events("1 a one>", "2 b ada@x>", "3 c two>", "4 d now", "5 e more@x>", "6 f long"+strings.Repeat("g", 90)+">")); err != nil {
		t.Fatal(err)
	}
	want := []string{"3 messages:|one|two|... and 1 more, which prescient events tail shows@", "2 messages:|ada|more@x", "now@"}
	if diff := gocmp.Diff(want, f.got); diff != "" {
		t.Error(diff)
	}
}

// One row with a text of a megabyte must not keep the other rows of a digest from their reader.
func TestALongMessageOfADigestHidesNoOther(t *testing.T) {
	t.Parallel()
	f := &fake{most: 2000}
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: f})
	if err := p.Publish(t.Context(), events("1 a one>", "2 b two"+strings.Repeat("o", 1<<20)+">", "3 c three>", "4 d four>")); err != nil {
		t.Fatal(err)
	}
	if len(f.got) != 1 || !strings.HasPrefix(f.got[0], "4 messages:|one|twooo") || !strings.HasSuffix(f.got[0], "ooo...|three|four@") ||
		len(f.got[0]) > 2000 {
		t.Errorf("%d: %.100q", len(f.got), f.got)
	}
}

func TestWhatIsAboveTheBoundOfAMinuteIsToldInOneMessage(t *testing.T) {
	t.Parallel()
	f := &fake{}
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: f, PerMinute: 3})
	if err := p.Publish(t.Context(), events("1 a one", "2 b two", "3 c three", "4 d four", "5 e five")); err != nil {
		t.Fatal(err)
	}
	want := []string{"one@", "two@", "3 messages at once; this receiver gets at most 3 a minute:|three|four|five@"}
	if diff := gocmp.Diff(want, f.got); diff != "" {
		t.Error(diff)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := p.Publish(ended, events("6 a six")); !errors.Is(err, context.Canceled) {
		t.Errorf("sent above the bound: %v", err)
	}
}

// A bound of one message a minute is longer than the time of a batch.
func TestWaitingForTheBoundOfAMinuteIsNoFailure(t *testing.T) {
	t.Parallel()
	f := &fake{}
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: f, PerMinute: 1})
	if err := p.Publish(t.Context(), events("1 a one")); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	err := p.Publish(over, events("2 b two", "3 c three@x"))
	if _, partial := errors.AsType[*event.PartialError](err); !partial {
		t.Errorf("%v", err)
	}
	for _, err := range event.Errors(err, 2) {
		if !errors.Is(err, event.ErrThrottled) {
			t.Errorf("%v", err)
		}
	}
}

func TestAMessageThatIsRefusedHoldsBackItsSubjectAlone(t *testing.T) {
	t.Parallel()
	f := &fake{}
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: f})
	err := p.Publish(t.Context(), events("1 a bad", "2 a next", "3 b one", "4 c two"))
	errs := event.Errors(err, 4)
	if !errors.Is(errs[0], event.ErrRefused) || !errors.Is(errs[1], event.ErrBlocked) || errs[2] != nil || errs[3] != nil {
		t.Errorf("%v", errs)
	}
	noText := []event.Event{{ID: "1", Source: "test", Type: message.Type("ops"), Data: json.RawMessage(`{"order": 42}`)}}
	f.got = nil
	later := append(events("1 a one@"), event.Event{ID: "2", Source: "test", Type: message.Type("ops"), Subject: "a"})
	errs = event.Errors(p.Publish(t.Context(), later), 2)
	if errs[0] != nil || !errors.Is(errs[1], event.ErrRefused) || strings.Join(f.got, " ") != "one@" {
		t.Errorf("a message before one that is refused: %v, %q", errs, f.got)
	}
	if err := p.Publish(t.Context(), noText); !errors.Is(event.Errors(err, 1)[0], event.ErrRefused) {
		t.Errorf("%v", err)
	}
}

func TestAServiceThatGoesDownLeavesTheRest(t *testing.T) {
	t.Parallel()
	f := &fake{}
	p := receiver.NewPublisher(receiver.PublisherConfig{Receiver: f})
	errs := event.Errors(p.Publish(t.Context(), events("1 a one", "2 b down", "3 c two")), 3)
	if errs[0] != nil || !errors.Is(errs[1], event.ErrNotSent) || !errors.Is(errs[2], event.ErrBlocked) {
		t.Errorf("%v", errs)
	}
	if err := p.Publish(t.Context(), events("2 b down", "3 c two")); err == nil || errors.Is(err, event.ErrNotSent) {
		t.Errorf("%v", err)
	}
	if diff := gocmp.Diff([]string{"one@"}, f.got); diff != "" {
		t.Error(diff)
	}
}
