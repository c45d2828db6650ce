package config

import (
	"net/url"
	"strings"
	"testing"

	"github.com/lib/pq"
)

func TestRedactMasksSecretsOnly(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"empty":                   {"", ""},
		"URL without password":    {"postgres://app@db:5432/orders?sslmode=disable", "postgres://app@db:5432/orders?sslmode=disable"},
		"URL with password":       {"postgres://app:s3cret@db/orders", "postgres://app:***@db/orders"},
		"URL with @ in password":  {"postgresql://app:s3cr@et@db/orders", "postgresql://app:***@db/orders"},
		"URL with escapes":        {"postgres://me%40corp:s3%2Fcret@db/o%40x", "postgres://me%40corp:***@db/o%40x"},
		"URL with empty password": {"postgres://app:@db", "postgres://app:@db"},
		"URL with host list":      {"postgres://app:s3cret@a,b/orders?port=1,2", "postgres://app:***@a,b/orders?port=1%2C2"},
		"URL with ports":          {"postgres://app:s3cret@a:5433,b/orders", "postgres://app:***@a:5433,b/orders"},
		"URL with parameter":      {"postgres://db/?password=s3cret&sslmode=require", "postgres://db/?password=***&sslmode=require"},
		"URL with it twice":       {"postgres://db/?password=s3cret&password=t0", "postgres://db/?password=***"},
		"URL with sslpassword":    {"postgres://db/?sslpassword=s3cret", "postgres://db/?sslpassword=***"},
		"URL with inline key":     {"postgres://db/?sslkey=-----BEGIN%20PRIVATE", "postgres://db/?sslkey=***"},
		"URL with pass file":      {"postgres://db/?passfile=/run/pgpass", "postgres://db/?passfile=%2Frun%2Fpgpass"},
		"URL on a socket":         {"postgres:///orders?host=/tmp", "postgres:///orders?host=%2Ftmp"},
		"URL of defaults":         {"postgres://", "postgres:///"},
		"pairs without password":  {"host=db  user = app", "host=db user=app"},
		"pairs with password":     {"host=db password=s3cret user=app", "host=db password=*** user=app"},
		"pairs with capitals":     {"Password=s3cret", "Password=***"},
		"pairs with spaces":       {"password = s3cret", "password=***"},
		"pairs with quotes":       {`password='s3 cr\'et' host='a b'`, `password=*** host='a b'`},
		"pairs with escapes":      {`password=s3\ cret host=db`, `password=*** host=db`},
		"pairs over lines":        {"host=db\npassword=s3cret\n", "host=db password=***"},
		"pairs with empty one":    {"host=db password=", "host=db password="},
		"pairs with quoted empty": {"password='' host=db", "password='' host=db"},
		"pairs with sslpassword":  {"sslpassword=s3cret", "sslpassword=***"},
		"pairs of another driver": {"Host=db;Password=s3cret", "Host=***"},
		"URL within pairs":        {"dbname=postgres://app:s3cret@db", "dbname=***"},

		"no connection string":    {"s3cret", Mask},
		"only spaces":             {"  ", Mask},
		"another scheme":          {"mysql://app:s3cret@db/orders", Mask},
		"another driver's URL":    {"jdbc:postgresql://db/orders?password=s3cret", Mask},
		"scheme in capitals":      {"POSTGRES://app:s3cret@db", Mask},
		"no slashes":              {"postgres:app:s3cret@db", Mask},
		"bad escape":              {"postgres://app:s3%cret@db", Mask},
		"plain # in password":     {"postgres://app:3#cret@db", Mask},
		"plain / in password":     {"postgres://app:3/cret@db", Mask},
		"plain ? in password":     {"postgres://app:3?cret@db", Mask},
		"plain @ / in password":   {"postgres://app:s@cr/et@db", Mask},
		"plain @ ? in password":   {"postgres://app:s@cr?e=t@db", Mask},
		"escaped : before it":     {"postgres://app%3As3cret@db", Mask},
		"plain , in password":     {"postgres://app:s3,cret/db", Mask},
		"semicolon in parameters": {"postgres://db/?password=s3;cret", Mask},
		"line break":              {"postgres://app:s3cret@db\n", Mask},
		"plain space in a pair":   {"password=my s3cret host=db", Mask},
		"unterminated quote":      {"password='s3cret host=db", Mask},
		"stray quote":             {"password=''s3cret'", Mask},
		"trailing backslash":      {`password=s3cret\`, Mask},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			diff(t, test.want, Redact(test.text))
			diff(t, test.want, Redact(Redact(test.text)))
		})
	}
}

// marker cannot come out of Redact unless a password did.
const marker = "hUnter2hUnter2"

func FuzzAPasswordNeverAppears(f *testing.F) {
	for _, password := range []string{"", "s3cret", "***", "a b", `'`, `\`, "@/?#:&=;%", "é\x00\n", "password=x"} {
		f.Add("app", password, "db")
	}
	f.Fuzz(func(t *testing.T, user, password, database string) {
		escape := strings.NewReplacer(`'`, `\'`, `\`, `\\`).Replace
		for _, text := range []func(password string) string{
			func(p string) string {
				u := url.URL{Scheme: "postgres", User: url.UserPassword(user, p), Host: "db", Path: "/" + database}
				return u.String()
			},
			func(p string) string {
				return "postgres://db/?" + url.Values{"user": {user}, "password": {p}, "dbname": {database}}.Encode()
			},
			func(p string) string {
				return "user='" + escape(user) + "' password='" + escape(p) + "' dbname='" + escape(database) + "'"
			},
		} {
			got, other := Redact(text(marker+password)), Redact(text("other"))
			if strings.Contains(got, marker) && !strings.Contains(user+database, marker) {
				t.Errorf("%s shows the password", got)
			}
			if got != other {
				t.Errorf("%s tells something about the password, else it is %s", got, other)
			}
		}
	})
}

func FuzzWhatTheDriverTakesForAPasswordNeverAppears(f *testing.F) {
	isolate(f)
	for _, around := range [][2]string{
		{"postgres://app:", "@db/orders"},
		{"postgres://app:a@", "@db/orders?sslmode=disable"},
		{"postgres://db?password=", "&sslmode=disable"},
		{"postgres://db?pass%77ord=a", ""},
		{"host=db password=", " user=app"},
		{"password='", "' user=app"},
		{`password = a\ `, ""},
		{"password=\u00a0", "\u2003user=app"},
		{"passwor\\d=", ""},
	} {
		f.Add(around[0], around[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + marker + after
		driver, err := pq.NewConfig(text)
		if err != nil || !strings.Contains(driver.Password, marker) {
			return
		}
		if got := Redact(text); strings.Contains(got, marker) {
			t.Errorf("%q shows the password: %q", text, got)
		}
	})
}

func FuzzRedactingTwiceChangesNothing(f *testing.F) {
	f.Add("postgres://app:s3cret@db/a%2Ab?x=%2A%2A%2A")
	f.Add(`host = db password='a b'`)
	f.Fuzz(func(t *testing.T, text string) {
		once := Redact(text)
		if twice := Redact(once); twice != once {
			t.Errorf("%q becomes %q, then %q", text, once, twice)
		}
	})
}
