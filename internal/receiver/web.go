package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/jobs/event"
)

// service is how to talk to a service by HTTP.
type service struct {
	// most is how many bytes of text the service takes.
	most int
	// request returns where a message is sent, from the address as a URL of https, and its body as JSON.
	request func(to url.URL, m Message) (url.URL, any, error)
	// method is the method of HTTP. Defaults to POST.
	method string
	// scheme says that the user of the address is sent as the header Authorization, and with which scheme.
	scheme string
	// incidents says that the service keeps an incident until a message is Over.
	incidents bool
}

// services are the services by HTTP, by the scheme of their addresses.
var services = map[string]service{
	"https":      {most: 64 << 10, request: generic},
	"slack":      {most: 30_000, request: slack},
	"mattermost": {most: 16_000, request: chat},
	"rocketchat": {most: 5_000, request: chat},
	"googlechat": {most: 4_000, request: chat},
	"zulip":      {most: 10_000, request: chat},
	"matrix":     {most: 32_000, request: matrix, method: http.MethodPut, scheme: "Bearer"},
	"teams":      {most: 20_000, request: teams},
	"discord":    {most: 2_000, request: discord},
	"telegram":   {most: 4_000, request: telegram},
	"ntfy":       {most: 4_000, request: ntfy},
	"gotify":     {most: 16_000, request: gotify},
	"pushover":   {most: 1_000, request: pushover},
	"pagerduty":  {most: 16_000, request: pagerDuty, incidents: true},
	"opsgenie":   {most: 15_000, request: opsGenie, scheme: "GenieKey", incidents: true},
}

// errNoTo is the error of a message to a person for a service that has no recipients.
var errNoTo = fmt.Errorf("%w: the service takes no recipient (to): only mail, telegram, ntfy and matrix do",
	event.ErrRefused)

func generic(to url.URL, m Message) (url.URL, any, error) {
	return to, struct {
		ID    string `json:"id"`
		Text  string `json:"text"`
		To    string `json:"to,omitempty"`
		About string `json:"about"`
		Over  bool   `json:"over"`
	}{m.ID, m.Text, m.To, m.About, m.Over}, nil
}

func chat(to url.URL, m Message) (url.URL, any, error) {
	return noTo(to, m, map[string]any{"text": m.Text})
}

func noTo(to url.URL, m Message, body any) (url.URL, any, error) {
	if m.To != "" {
		return to, nil, errNoTo
	}
	return to, body, nil
}

// slackText is text that Slack takes as it is.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func slack(to url.URL, m Message) (url.URL, any, error) {
	return noTo(to, m, map[string]any{"text": slackText.Replace(m.Text)})
}

func discord(to url.URL, m Message) (url.URL, any, error) {
	return noTo(to, m, map[string]any{"content": m.Text, "allowed_mentions": map[string]any{"parse": []string{}}})
}

// teams is a workflow of Microsoft Teams that posts an adaptive card.
func teams(to url.URL, m Message) (url.URL, any, error) {
	card := map[string]any{
		"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
		"body": []any{map[string]any{"type": "TextBlock", "text": m.Text, "wrap": true}},
	}
	return noTo(to, m, map[string]any{"type": "message", "attachments": []any{
		map[string]any{"contentType": "application/vnd.microsoft.card.adaptive", "content": card},
	}})
}

func telegram(to url.URL, m Message) (url.URL, any, error) {
	token, to := user(to)
	group := strings.Trim(to.Path, "/")
	if token == "" || group == "" && m.To == "" {
		return to, nil, errors.New("want telegram://TOKEN@api.telegram.org/CHAT")
	}
	if m.To != "" {
		group = m.To
	}
	to.Path = "/bot" + token + "/sendMessage"
	return to, map[string]any{"chat_id": group, "text": m.Text}, nil
}

func ntfy(to url.URL, m Message) (url.URL, any, error) {
	topic := strings.Trim(to.Path, "/")
	if topic == "" && m.To == "" {
		return to, nil, errors.New("want ntfy://ntfy.sh/TOPIC")
	}
	if m.To != "" {
		topic = m.To
	}
	to.Path = "/"
	return to, map[string]any{"topic": topic, "message": m.Text}, nil
}

func gotify(to url.URL, m Message) (url.URL, any, error) {
	token := strings.Trim(to.Path, "/")
	if token == "" {
		return to, nil, errors.New("want gotify://HOST/TOKEN")
	}
	to.Path, to.RawQuery = "/message", url.Values{"token": {token}}.Encode()
	return noTo(to, m, map[string]any{"message": m.Text})
}

func pushover(to url.URL, m Message) (url.URL, any, error) {
	token, to := user(to)
	person := strings.Trim(to.Path, "/")
	if token == "" || person == "" {
		return to, nil, errors.New("want pushover://TOKEN@api.pushover.net/USER")
	}
	to.Path = "/1/messages.json"
	return noTo(to, m, map[string]any{"token": token, "user": person, "message": m.Text})
}

// pagerDuty opens an incident, and resolves it when the problem is over (Events API v2).
func pagerDuty(to url.URL, m Message) (url.URL, any, error) {
	key, to := user(to)
	if key == "" {
		return to, nil, errors.New("want pagerduty://KEY@events.pagerduty.com")
	}
	to.Path = "/v2/enqueue"
	body := map[string]any{"routing_key": key, "event_action": "resolve", "dedup_key": incident(m, 255)}
	if !m.Over {
		body["event_action"] = "trigger"
		body["payload"] = map[string]any{
			"summary": cut(firstLine(m.Text), 1024), "source": "prescient", "severity": "error",
			"custom_details": map[string]any{"text": m.Text},
		}
	}
	return noTo(to, m, body)
}

// opsGenie raises an alert, and closes it when the problem is over (Alert API). The path of the address is that of
// another product with the same API, such as Jira Service Management.
func opsGenie(to url.URL, m Message) (url.URL, any, error) {
	key, to := user(to)
	if key == "" {
		return to, nil, errors.New("want opsgenie://KEY@api.opsgenie.com")
	}
	to.Path = strings.TrimRight(to.Path, "/") + "/v2/alerts"
	body := map[string]any{"source": "prescient"}
	alias := incident(m, 512)
	if m.Over {
		to.RawPath = to.EscapedPath() + "/" + url.PathEscape(alias) + "/close"
		to.Path += "/" + alias + "/close"
		to.RawQuery = "identifierType=alias"
		return noTo(to, m, body)
	}
	body["message"], body["alias"], body["description"] = cut(firstLine(m.Text), 130), alias, m.Text
	return noTo(to, m, body)
}

// incident returns the name of the incident of a message, of so many bytes at most.
func incident(m Message, most int) string {
	if len(m.About) > most {
		return hash(m.About)
	}
	return m.About
}

// matrix sends to a room. The server takes a message with the same id once.
func matrix(to url.URL, m Message) (url.URL, any, error) {
	token, to := user(to)
	room := strings.Trim(to.Path, "/")
	if m.To != "" {
		room = m.To
	}
	if token == "" || room == "" || m.To == "" && !strings.HasPrefix(room, "!") {
		return to, nil, errors.New("want matrix://TOKEN@matrix.example.com/!ROOM:example.com")
	}
	const begin = "/_matrix/client/v3/rooms/"
	end := "/send/m.room.message/" + hash(m.ID)
	to.Path, to.RawPath = begin+room+end, begin+url.PathEscape(room)+end
	return to, map[string]any{"msgtype": "m.text", "body": m.Text}, nil
}

// user returns what a URL has before the @, and the URL without it.
func user(to url.URL) (string, url.URL) {
	text := to.User.Username()
	if password, has := to.User.Password(); has { // the token of a bot of Telegram has a colon
		text += ":" + password
	}
	to.User = nil
	return text, to
}

// web is a receiver by HTTP.
type web struct {
	service
	to     url.URL
	client *egress.Client
}

// answers is how much of an answer is read.
const answers = 64 << 10

func openWeb(u *url.URL, s service, plain bool, cfg Config) (Receiver, error) {
	to := *u
	if to.Scheme = "https"; plain {
		to.Scheme = "http"
	}
	if to.Hostname() == "" || strings.Contains(to.Host, ",") || to.Opaque != "" {
		return nil, ErrAddress
	}
	if _, _, err := s.request(to, Message{}); err != nil {
		return nil, err
	}
	// The forwarder tries again by itself, so one more attempt is enough here.
	client, err := egress.New(egress.Config{
		Allow: cfg.Allow, MaxAttempts: 2, MaxResponseBytes: answers, StatusDecides: true,
	})
	if err != nil {
		return nil, err
	}
	return &web{service: s, to: to, client: client}, nil
}

// Send implements Receiver.
func (w *web) Send(ctx context.Context, m Message) (string, error) {
	to, content, err := w.request(w.to, m)
	if err != nil {
		return "", err
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // services bound the bytes of a request
	if err := enc.Encode(content); err != nil {
		return "", fmt.Errorf("%w: %w", event.ErrRefused, err)
	}
	key, _ := user(w.to)
	out := egress.Message{
		ID: m.ID, ContentType: "application/json", Body: bytes.TrimSpace(body.Bytes()), Method: w.method, Secret: key,
	}
	if w.scheme != "" {
		out.Authorization = w.scheme + " " + key
	}
	answer, err := w.client.Post(ctx, &to, out)
	switch status, is := errors.AsType[*egress.StatusError](err); {
	case is && refuses(status.Status, m.To != ""):
		err = fmt.Errorf("%w: %w", event.ErrRefused, err)
	case is && status.Status >= http.StatusInternalServerError && status.RetryAfter == 0:
		err = answered{err}
	}
	return strings.TrimSpace(string(answer)), advised(err)
}

// refuses reports whether a status refuses the message alone. A message with a recipient of its own may be refused
// because of this recipient: Telegram answers 403 for a person who has blocked the bot.
func refuses(status int, own bool) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	case http.StatusForbidden, http.StatusNotFound, http.StatusGone:
		return own
	}
	return false
}

// Most implements Receiver.
func (w *web) Most() int { return w.most }

// Close implements Receiver.
func (w *web) Close() error {
	w.client.Close()
	return nil
}
