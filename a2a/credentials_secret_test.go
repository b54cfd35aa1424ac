package a2a_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/runner"
)

// secrets are all that the test below gives to a remote agent.
var secrets = []string{"s3cret-bearer", "s3cret-header", "s3cret-key", "s3cret-cookie", "s3cret-basic", "s3cret-query", "s3cret-client", "s3cret-token", "s3cret-tenant", "hunter2"}

func requireNoSecret(t *testing.T, text string) {
	t.Helper()
	for _, s := range secrets {
		require.NotContains(t, text, s)
		require.NotContains(t, text, base64.StdEncoding.EncodeToString([]byte("arbor:"+s)))
	}
}

// everything is all that can be got out of an error: its text, in all formats, and
// those of its causes.
func everything(err error) string {
	if err == nil {
		return ""
	}
	text := fmt.Sprintf("%v\n%+v\n%s\n", err, err, err)
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		text += everything(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			text += everything(err)
		}
	}
	return text
}

// Whatever goes wrong, and though the peer repeats all that it was sent, no secret
// is in an error, a log or a stored event.
func TestSecretsStaySecret(t *testing.T) {
	echo := func(req *http.Request) string {
		return fmt.Sprint(req.Header, " ", req.URL.RawQuery)
	}
	quoted := func(s string) string {
		b, _ := json.Marshal(s)
		return string(b)
	}
	failures := map[string]func(w http.ResponseWriter, req *http.Request) bool{
		"plain status": func(w http.ResponseWriter, req *http.Request) bool {
			http.Error(w, echo(req), http.StatusBadGateway)
			return true
		},
		"unauthorized": func(w http.ResponseWriter, req *http.Request) bool {
			http.Error(w, echo(req), http.StatusForbidden)
			return true
		},
		"error of HTTP+JSON": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"code":400,"message":%s,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INVALID_REQUEST","domain":"a2a-protocol.org"}]}}`, quoted(echo(req)))
			return true
		},
		"error of a gateway": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":%s}}`, quoted(echo(req)))
			return true
		},
		"error of JSON-RPC": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":%s}}`, quoted(echo(req)))
			return true
		},
		"something else": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"result":%s}`, quoted(echo(req)))
			return true
		},
		"a redirect": func(w http.ResponseWriter, req *http.Request) bool {
			http.Redirect(w, req, "http://elsewhere.test/?"+req.URL.RawQuery+"&"+url.QueryEscape(echo(req)), http.StatusTemporaryRedirect)
			return true
		},
		"a redirect to nowhere": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Location", "http://[nowhere/?"+req.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
			return true
		},
		"the connection breaks": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
	}
	token := `{"access_token":"s3cret-token","expires_in":3600}`
	for name, failure := range failures {
		for _, protocol := range protocols {
			for _, where := range []string{"card", "call"} {
				for _, oauth := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/%s/%s/oauth=%v", name, protocol, where, oauth), func(t *testing.T) {
						srv := newPeer(t, protocol, nil)
						srv.wrap = func(w http.ResponseWriter, req *http.Request) bool {
							if isCard := strings.HasPrefix(req.URL.Path, "/.well-known"); isCard != (where == "card") {
								return false
							}
							return failure(w, req)
						}
						opts := []a2a.Option{a2a.WithHeader("X-Secret", "s3cret-header"),
							a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationHeader, "X-API-Key", "s3cret-key/1"),
							a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationQuery, "key", "s3cret-query 2"),
							a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "session", "s3cret-cookie")}
						if oauth {
							endpoint := newTokenEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
								w.Header().Set("Content-Type", "application/json")
								_, _ = io.WriteString(w, token)
							})
							opts = append(opts, a2a.WithClientCredentials(a2a.ClientCredentials{TokenURL: endpoint.URL, ID: "arbor", Secret: "s3cret-client"}))
						}
						var log bytes.Buffer
						logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
						user := "://arbor:s3cret-basic@"
						if oauth {
							user = "://"
						}
						r := remotetest.Billing(t, strings.Replace(srv.URL, "://", user, 1)+"/.well-known/agent-card.json?token=s3cret-tenant", opts...)
						err := ready(r)
						require.Equal(t, where == "card", err != nil)
						f := newRunner(t, r, runner.WithLogger(logger), runner.WithStreaming())
						events, _, turnErr := f.Turn("hi")
						require.Error(t, turnErr)
						require.NotEmpty(t, events)
						stored := storedEvents(t, f)
						require.Contains(t, stored, "remote_")
						for _, text := range []string{everything(err), everything(turnErr), log.String(), stored} {
							requireNoSecret(t, text)
						}
					})
				}
			}
		}
	}
}

// A peer that repeats a token in its answer repeats it to nobody else, however it is cut into pieces.
func TestSecretsInAnswers(t *testing.T) {
	const token = "hunter2-of-the-PEER"     // capitals, which no id has
	const odd = `hunter<3>&"of"\'the\\PEER` // which JSON escapes
	text := "Sent: " + token + ", and of the token: " + token[:9]
	artifact := func(more bool, parts string) string {
		return fmt.Sprintf(`{"artifactUpdate":{"taskId":"t1","contextId":"c1","append":%v,"artifact":{"artifactId":"a","parts":[%s]}}}`, more, parts)
	}
	for name, events := range map[string][]string{
		"an artifact": {taskEvent("COMPLETED", "", "a", text)},
		"a status":    {taskEvent("WORKING", ""), statusEvent("COMPLETED", text)},
		"a message":   {messageEvent(text)},
		"a question":  {taskEvent("INPUT_REQUIRED", text)},
		"an error":    {taskEvent("FAILED", text)},
		"ids":         {strings.NewReplacer("t1", token, "c1", token).Replace(taskEvent("COMPLETED", "", "a", text))},
		"letters": append(append([]string{taskEvent("WORKING", "")}, func() (letters []string) {
			for _, c := range text {
				letters = append(letters, deltaEvent("a", string(c)))
			}
			return letters
		}()...), statusEvent("COMPLETED", "")),
		"files":    {taskEvent("WORKING", "", "b", text), artifact(false, `{"raw":"aGk=","filename":"`+token+`.txt"},{"url":"https://x.test/?key=`+token+`"}`), statusEvent("COMPLETED", "")},
		"data":     {taskEvent("WORKING", ""), artifact(false, fmt.Sprintf(`{"text":%q},{"data":{"key":%s}}`, token[:9], must.Get(json.Marshal(odd)))), statusEvent("COMPLETED", "")},
		"JSON":     {taskEvent("COMPLETED", "", "a", token[:9]+string(must.Get(event.Marshal(odd)))), statusEvent("COMPLETED", "")},
		"a change": {taskEvent("WORKING", ""), deltaEvent("a", text[:12]), deltaEvent("b", "!"), deltaEvent("a", text[12:]), statusEvent("COMPLETED", "")},
	} {
		for _, place := range []string{"", "a node of a graph"} {
			t.Run(name+" "+place, func(t *testing.T) {
				p := newWire(t, func(w http.ResponseWriter, c call) { c.stream(w, events...) })
				root := remotetest.Billing(t, p.URL, a2a.WithBearer(token), a2a.WithHeader("X-Key", odd))
				if place != "" {
					root = places[place].root(t, root)
				}
				var log bytes.Buffer
				logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				f := newRunner(t, root, runner.WithLogger(logger), runner.WithStreaming())
				_, streamed, err := f.Turn("hi")
				stored := storedEvents(t, f)
				require.Contains(t, stored, "[redacted]")
				require.Contains(t, stored, token[:9])
				for _, text := range []string{everything(err), log.String(), stored, streamed} {
					require.NotContains(t, text, token)
					require.NotContains(t, text, "PEER", "the end of each secret")
				}
			})
		}
	}
}

// storedEvents is the log of the session as it is stored.
func storedEvents(t *testing.T, f *fixture) string {
	t.Helper()
	var all strings.Builder
	for _, e := range must.All(f.Store.Load(context.Background(), key, 0)) {
		data := must.Get(json.Marshal(e))
		all.Write(data)
	}
	return all.String()
}

// Options that cannot be used are found at once, without a word of what they hold.
func TestCredentialsThatCannotBeSent(t *testing.T) {
	for name, opts := range map[string][]a2a.Option{
		"line break in a header": {a2a.WithHeader("X-Secret", "hunter2\r\nX-Evil: 1")},
		"line break in a token":  {a2a.WithBearer("hunter2\n")},
		"bad name of a header":   {a2a.WithHeader("X Secret", "hunter2")},
		"bad cookie":             {a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "session", "hunter2;x")},
		"bad name of a cookie":   {a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, "se=ssion", "hunter2")},
		"key without a name":     {a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationQuery, "", "hunter2")},
		"key without a value":    {a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationQuery, "key", "")},
		"key in the body":        {a2a.WithAPIKey("body", "key", "hunter2")},
		"token endpoint":         {a2a.WithClientCredentials(a2a.ClientCredentials{TokenURL: "tokens.test/hunter2", Secret: "hunter2"})},
		"no token endpoint":      {a2a.WithClientCredentials(a2a.ClientCredentials{TokenURL: "http://a b/?hunter2", Secret: "hunter2"})},
		"two for one header":     {a2a.WithBearer("hunter2"), a2a.WithClientCredentials(a2a.ClientCredentials{TokenURL: "https://tokens.test", Secret: "hunter2"})},
		"certificate for a transport that is none of HTTP's": {a2a.WithClientCertificate(tls.Certificate{}), a2a.WithHTTPClient(&http.Client{Transport: pipe(nil)})},
		"incomplete binding": {a2a.WithBinding(a2a.Binding{Protocol: "GRPC"})},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a2a.Remote("billing", "https://peer.test", opts...)
			require.ErrorContains(t, err, `remote agent "billing"`)
			requireNoSecret(t, everything(err))
		})
	}
	c := a2a.ClientCredentials{TokenURL: "https://tokens.test?hunter2", ID: "arbor", Secret: "hunter2"}
	asJSON := must.Get(json.Marshal(a2a.ClientCredentials{ID: "arbor", Secret: "hunter2"}))
	requireNoSecret(t, fmt.Sprintf("%v %+v %#v %s %s", c, c, c, c, asJSON))
}
