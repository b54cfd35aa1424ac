package inspector

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browser is Debian's Chromium, spoken to over two pipes (Chrome DevTools Protocol): NUL ends each
// message of JSON.
type browser struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	n       int
	session string
	// Faults are what the page has reported: exceptions, and what its policy has refused.
	faults []string
}

// open starts a browser with an empty profile and one page. Without a browser the test is skipped,
// and fails where all tests have to run.
func open(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("chromium is missing; apt-get install chromium")
		}
		t.Skip("chromium is missing: the page was tried in no browser")
	}
	profile, err := os.MkdirTemp("", "arbor-browser-")
	require.NoError(t, err)
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
		"--disable-background-networking", "--no-first-run", "--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	theirs, in, err := os.Pipe()
	require.NoError(t, err)
	out, ours, err := os.Pipe()
	require.NoError(t, err)
	cmd.ExtraFiles = []*os.File{theirs, ours} // 3 and 4
	require.NoError(t, cmd.Start())
	theirs.Close()
	ours.Close()
	b := &browser{t: t, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	require.NoError(t, out.SetReadDeadline(time.Now().Add(2*time.Minute)))
	t.Cleanup(func() {
		_, _ = in.WriteString(`{"id": 0, "method": "Browser.close"}` + "\x00")
		_, _ = io.Copy(io.Discard, b.out) // until it has ended, or the deadline
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		in.Close()
		out.Close()
		_ = os.RemoveAll(profile) // its last process may still write there
	})
	b.newPage()
	return b
}

// newPage opens a page, to which all that follows goes.
func (b *browser) newPage() {
	b.t.Helper()
	var target struct{ TargetID, SessionID string }
	b.session = ""
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	b.call("Page.enable", nil, nil)
	b.call("Runtime.enable", nil, nil)
	b.call("Log.enable", nil, nil)
}

type message struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// call calls a method and waits for its answer.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.n++
	call := map[string]any{"id": b.n, "method": method, "params": params}
	if params == nil {
		call["params"] = struct{}{}
	}
	if b.session != "" {
		call["sessionId"] = b.session
	}
	text, err := json.Marshal(call)
	require.NoError(b.t, err)
	_, err = b.in.Write(append(text, 0))
	require.NoError(b.t, err)
	for {
		m := b.next()
		if m.ID != b.n {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			require.NoError(b.t, json.Unmarshal(m.Result, result))
		}
		return
	}
}

// next reads a message.
func (b *browser) next() (m message) {
	b.t.Helper()
	text, err := b.out.ReadBytes(0)
	require.NoError(b.t, err, "the browser says nothing more")
	require.NoError(b.t, json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m))
	switch m.Method {
	case "Runtime.exceptionThrown":
		b.faults = append(b.faults, string(m.Params))
	case "Log.entryAdded":
		if strings.Contains(string(m.Params), "Security Policy") {
			b.faults = append(b.faults, string(m.Params))
		}
	}
	return m
}

// visit goes to an address, and returns when the page is loaded.
func (b *browser) visit(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	for b.next().Method != "Page.loadEventFired" {
	}
}

// run returns what an expression is in the page, as text, or the error that it throws. Promises
// are waited for.
func (b *browser) run(expression string) string {
	b.t.Helper()
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &got)
	if got.ExceptionDetails != nil {
		return got.ExceptionDetails.Exception.Description
	}
	return fmt.Sprint(got.Result.Value)
}

// until waits until an expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	b.run(`new Promise((done) => { (function look() { (` + expression + `) ? done() : setTimeout(look, 10) })() })`)
}

// A browser signs in with the address that was printed, sees the doors and sessions, and signs out.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	b, h := open(t), serve(t, 51) // more than a page
	b.visit(h.url + "/inspect/#code=" + must(h.signIn.Code("local")))
	b.until(`document.querySelector('#sessions tr')`)
	require.Equal(t, h.url+"/inspect/", b.run("location.href"), "the code is not kept in the history")
	require.Equal(t, "local · inspect · act · desk", b.run("document.getElementById('who').textContent"))
	require.Equal(t, "api,inspector", b.run("[...document.querySelectorAll('#doors li')].map((e) => e.textContent).join()"))
	row := b.run("document.querySelector('#sessions tr').innerText")
	require.Regexp(t, `^s\d+\t`, row)
	require.Contains(t, row, "\tdone\tdesk\t")
	require.Contains(t, row, "<img src=x onerror=alert(1)>", "words of a conversation are no HTML")
	b.run("document.getElementById('more').click()")
	b.until("document.querySelectorAll('#sessions tr').length === 51")
	require.Equal(t, "true", b.run("document.getElementById('more').hidden"))
	require.Equal(t, "false", b.run("document.getElementById('all').hidden || document.getElementById('in').checkVisibility()"))
	require.Equal(t, "rgb", b.run("getComputedStyle(document.querySelector('header')).display === 'flex' && getComputedStyle(document.body).color.slice(0, 3)"), "its style is applied")

	// Neither half works alone, and the cookie cannot be read.
	require.Empty(t, b.run("document.cookie"))
	require.Equal(t, "401", b.run("fetch('/api/v1/me').then((r) => r.status)"))
	require.Equal(t, "401", b.run("fetch('/api/v1/me', {credentials: 'omit', headers: {'Arbor-CSRF': localStorage.getItem('arbor-key')}}).then((r) => r.status)"))
	require.Equal(t, "200", b.run("fetch('/api/v1/me', {headers: {'Arbor-CSRF': localStorage.getItem('arbor-key')}}).then((r) => r.status)"))
	require.Empty(t, b.faults)

	// The policy holds.
	require.Contains(t, b.run("document.body.innerHTML = '<b>x</b>'"), "TrustedHTML")
	require.Contains(t, b.run("fetch('http://127.0.0.1:1/').then((r) => r.status)"), "TypeError")
	b.run("var s = document.createElement('div'); s.setAttribute('onclick', 'window.hit = 1'); s.click()")
	require.Equal(t, "undefined", b.run("String(window.hit)"))
	require.NotEmpty(t, b.faults)

	// It stays signed in in another window, and over a restart.
	b.newPage()
	b.visit(h.url + "/inspect/")
	b.until(`document.querySelector('#sessions tr')`)

	// The cookie goes to all ports of the host, where it is of no use.
	cookies := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			cookies <- r.Header.Get("Cookie")
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>other</title>")
	}))
	defer other.Close()
	mine := b.session
	b.newPage()
	b.visit(other.URL + "/")
	cookie := <-cookies
	require.Contains(t, cookie, "arbor_")
	got, _ := h.ask(t, http.DefaultClient, "GET", "/api/v1/me", "", "Cookie", cookie)
	require.Equal(t, 401, got.StatusCode)
	require.Equal(t, "null", b.run("String(localStorage.getItem('arbor-key'))"))
	require.Contains(t, b.run("fetch('"+h.url+"/api/v1/me', {credentials: 'include', headers: {'Arbor-CSRF': 'x'}}).then((r) => r.status)"), "TypeError")
	require.Contains(t, b.run("fetch('"+h.url+"/inspect/sign-in', {method: 'POST', body: '{}'}).then((r) => r.status)"), "TypeError")
	b.session = mine

	// Signing out ends it, and a token that was typed signs in.
	b.run("document.getElementById('out').click()")
	b.until("document.getElementById('in').checkVisibility()")
	require.Equal(t, "null", b.run("String(localStorage.getItem('arbor-key'))"))
	for _, token := range []string{"wrong", "the-token"} {
		b.run("document.getElementById('token').value = '" + token + "'; document.querySelector('#in button').click()")
		if token == "wrong" {
			b.until("document.getElementById('said').textContent.includes('not accepted')")
		}
	}
	b.until("document.querySelector('#sessions tr') && !document.getElementById('all').hidden")
	require.Empty(t, b.run("document.getElementById('said').textContent"))

	// A code works once; who has it later is asked for a token.
	code := must(h.signIn.Code("local"))
	for _, want := range []string{"!document.getElementById('all').hidden", "document.getElementById('in').checkVisibility()"} {
		b.run("localStorage.clear()")
		b.visit("about:blank")
		b.visit(h.url + "/inspect/#code=" + code)
		b.until(want)
	}
}
