package pages

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prescient-go/prescient/internal/web"
)

// kept returns how many sessions are kept.
func (s *sessions) kept() (n int) {
	for _, own := range s.open {
		n += own.Len()
	}
	return n
}

// loggedIn begins a session, and returns its cookie.
func loggedIn(s *sessions, v web.Who) *http.Cookie {
	w := httptest.NewRecorder()
	s.begin(w, httptest.NewRequest(http.MethodPost, "/login", nil), v)
	return w.Result().Cookies()[0]
}

func TestALogInEndsAfterTwelveHoursOrTwoThatNobodyUsesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(false)
		busy, idle := loggedIn(s, web.Who{MayRead: true, MayChange: true, Name: "otto"}), loggedIn(s, web.Who{MayRead: true, Name: "ann"})
		for range 11 {
			time.Sleep(time.Hour)
			if who, known := s.find(busy.Value, true); !known || who.Name != "otto" {
				t.Fatalf("%v, %v", who, known)
			}
		}
		if _, known := s.find(idle.Value, true); known {
			t.Error("nobody used it for 11 hours, and it holds")
		}
		time.Sleep(61 * time.Minute)
		if who, known := s.find(busy.Value, true); known || who.MayRead {
			t.Errorf("%v holds after 12 hours", who)
		}
		loggedIn(s, web.Who{MayRead: true, Name: "ann"})
		if n := s.kept(); n > 2 { // the first one lasts until it is unused for two hours
			t.Errorf("%d sessions are kept", n)
		}
	})
}

func TestWhoLogsInAgainEndsTheLogInBefore(t *testing.T) {
	t.Parallel()
	s := newSessions(false)
	before, other := loggedIn(s, web.Who{MayRead: true, Name: "ann"}), loggedIn(s, web.Who{MayRead: true, Name: "ann"})
	r := httptest.NewRequest(http.MethodPost, "/login", nil)
	r.AddCookie(before)
	s.begin(httptest.NewRecorder(), r, web.Who{MayRead: true, MayChange: true, Name: "otto"})
	if _, known := s.find(before.Value, true); known {
		t.Error("the log-in before goes on")
	}
	if _, known := s.find(other.Value, true); !known || s.kept() != 2 {
		t.Errorf("that of another browser has ended; %d are kept", s.kept())
	}
}

func TestWhoWatchesDoesNotKeepALogInAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(false)
		id := loggedIn(s, web.Who{MayRead: true, Name: "ann"}).Value
		time.Sleep(119 * time.Minute)
		if _, known := s.find(id, false); !known {
			t.Fatal("it has ended")
		}
		time.Sleep(2 * time.Minute)
		if _, known := s.find(id, false); known {
			t.Error("an open page keeps it alive")
		}
	})
}

func TestTheOldestLogInMakesRoomForTheThousandAndFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(false)
		first := loggedIn(s, web.Who{MayRead: true, Name: "first"})
		second := loggedIn(s, web.Who{MayRead: true, Name: "second"})
		time.Sleep(time.Second)
		s.find(first.Value, true)
		for range maxSessions - 1 {
			loggedIn(s, web.Who{MayRead: true, Name: "ann"})
		}
		if _, known := s.find(first.Value, true); !known || s.kept() != maxSessions {
			t.Errorf("known %v, and %d are kept", known, s.kept())
		}
		if _, known := s.find(second.Value, true); known {
			t.Error("who was there longest ago has not made room")
		}
	})
}

func TestTheCookieIsForThisServerAlone(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		c := loggedIn(newSessions(secure), web.Who{MayRead: true, Name: "ann"})
		name := map[bool]string{false: "prescient_session", true: "__Host-prescient"}[secure]
		if c.Name != name || c.SameSite != http.SameSiteStrictMode || !c.HttpOnly || c.Secure != secure || c.Path != "/" || c.Domain != "" || len(c.Value) != 43 {
			t.Errorf("secure %v: %s", secure, c)
		}
	}
}

// Browsers send a cookie to each port of a host.
func TestTheCookieOfAServerIsNoneOfOneOnAnotherPort(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s, other := newSessions(secure), newSessions(secure)
		at := func(host string) *http.Request {
			return httptest.NewRequest(http.MethodGet, "http://"+host+"/", nil)
		}
		jar := at("localhost:8088")
		for server, host := range map[*sessions]string{s: "localhost:8088", other: "localhost:8089"} {
			w := httptest.NewRecorder()
			server.begin(w, at(host), web.Who{MayRead: true, Name: "ann"})
			jar.AddCookie(w.Result().Cookies()[0])
		}
		for server, host := range map[*sessions]string{s: "localhost:8088", other: "localhost:8089"} {
			r := jar.Clone(t.Context())
			r.Host = host
			if _, known := server.find(server.id(r), true); !known {
				t.Errorf("secure %v: %s has logged out", secure, host)
			}
		}
	}
}

func TestTheTokenOfAFormIsThatOfOneBrowser(t *testing.T) {
	t.Parallel()
	s, other := newSessions(false), newSessions(false)
	if !s.formTokenIs("a", s.formToken("a")) {
		t.Error("it is not known")
	}
	for name, is := range map[string]bool{
		"of another browser": s.formTokenIs("a", s.formToken("b")), "none": s.formTokenIs("a", ""),
		"without a cookie": s.formTokenIs("", s.formToken("")), "of another server": s.formTokenIs("a", other.formToken("a")),
	} {
		if is {
			t.Errorf("one %s is taken", name)
		}
	}
}

func TestOneTokenEvictsNoSessionOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(false)
		operator := loggedIn(s, web.Who{MayRead: true, MayChange: true, Name: "ops", Token: 1})
		time.Sleep(time.Minute)
		for range 3 * maxSessions {
			time.Sleep(time.Millisecond)
			loggedIn(s, web.Who{MayRead: true, Name: "ann", Token: 2})
		}
		if _, known := s.find(operator.Value, true); !known || s.kept() != maxSessions+1 {
			t.Errorf("the operator is logged in: %v, and %d sessions are kept", known, s.kept())
		}
	})
}
