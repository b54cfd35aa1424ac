//go:build unix

package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/server"
)

// agents is what the tests read of the answer of GET /agents.
type agents struct {
	Revision string
	Changed  time.Time
	Problems []struct {
		File    string
		Line    int
		Message string
	}
	Root struct{ Name string }
}

func (s *served) agents() (a agents) {
	s.t.Helper()
	status, body := s.call("GET", "/api/v1/agents", "")
	require.Equal(s.t, 200, status, body)
	require.NoError(s.t, json.Unmarshal([]byte(body), &a))
	return a
}

// A developer saves files: the next turn has the new ones, and a turn under way ends with the old
// ones. What cannot be used is told on standard error and by the API, word by word, until it is put
// right. The requests to models are kept.
func TestDev(t *testing.T) {
	t.Parallel()
	dir, save := ownDesk(t)
	tech := must.Get(os.ReadFile(filepath.Join(dir, "tech.md")))
	answer, asked, release := slow("By the first tree.")
	script := answers(answer, scripted.Reply(scripted.Text("By the second.")), scripted.Reply(scripted.Text("Still by the second.")), scripted.Reply(scripted.Text("By the third.")))
	s := invocation{env: append(serve(t, script), "DISPLAY=:9", "PATH="), server: "dev"}.serve(t, dir, "--db", ":memory:")
	first := s.agents()
	require.Equal(t, "support", first.Root.Name)
	require.Zero(t, first.Changed)
	changes := s.open("GET", "/api/v1/changes", "", token)
	defer changes.Body.Close()
	frames := bufio.NewScanner(changes.Body)
	reloaded := func() (revision string) {
		t.Helper()
		for event := ""; frames.Scan(); {
			name, value, _ := strings.Cut(frames.Text(), ": ")
			if name == "event" {
				event = value
			} else if name == "data" && event == "tree" {
				return must.JSON[struct{ Revision string }](value).Revision
			} else if name == "" {
				event = ""
			}
		}
		require.NoError(t, frames.Err())
		require.FailNow(t, "the stream has ended")
		return ""
	}
	turn := func(id, words string) string {
		t.Helper()
		resp := s.open("POST", "/api/v1/sessions", `{"id":"`+id+`","content":"`+words+`"}`, token)
		defer resp.Body.Close()
		body := must.Get(io.ReadAll(resp.Body))
		require.Equal(t, 202, resp.StatusCode, string(body))
		return resp.Header.Get("Location")
	}
	said := func(turn string) string {
		t.Helper()
		resp := s.open("GET", turn+"/events?types=text", "", token) // as a page
		defer resp.Body.Close()
		return string(must.Get(io.ReadAll(resp.Body)))
	}
	ends := func(turn string) string {
		t.Helper()
		must.Wait(t, func() bool {
			_, body := s.call("GET", turn, "")
			return strings.Contains(body, `"state":"done"`)
		})
		return said(turn)
	}

	begun := turn("s1", "hello")
	receive(t, asked)
	save("support.md", strings.Replace(rewritten, ", night", "", 1))
	revision := reloaded()
	second := s.agents()
	require.Equal(t, revision, second.Revision)
	require.NotEqual(t, first.Revision, second.Revision)
	require.Equal(t, "front", second.Root.Name)
	require.WithinDuration(t, time.Now(), second.Changed, time.Hour)
	require.Contains(t, ends(turn("s2", "hello")), "By the second.")
	close(release)
	require.Contains(t, ends(begun), "By the first tree.")

	save("tech.md", "---\nname: tech\ndescripton: typo\n---\n")
	require.Equal(t, second.Revision, reloaded())
	broken := s.agents()
	require.Equal(t, second.Revision, broken.Revision)
	require.Equal(t, second.Changed, broken.Changed)
	require.Len(t, broken.Problems, 1)
	require.Equal(t, filepath.Join(dir, "tech.md"), broken.Problems[0].File)
	require.Equal(t, 3, broken.Problems[0].Line)
	require.Equal(t, `unknown key "descripton"; did you mean "description"?`, broken.Problems[0].Message)
	s.said.until(t, "the tree stays as it was\n"+broken.Problems[0].File+":3: "+broken.Problems[0].Message+"\n", 1)
	require.Contains(t, ends(turn("s3", "hello")), "Still by the second.")

	// One mistake is put right, and another one is made.
	save("billing.md", "---\nname: front\ndescription: Another one\n---\nYou bill.\n")
	save("tech.md", string(tech))
	must.Wait(t, func() bool {
		p := s.agents().Problems
		return len(p) > 0 && !strings.Contains(p[0].Message, "descripton")
	})
	for _, p := range s.agents().Problems {
		require.NotEmpty(t, p.Message)
	}
	billing := must.Get(os.ReadFile(filepath.Join(desk, "billing.md")))
	save("billing.md", string(billing)+"You are kind.\n")
	must.Wait(t, func() bool { return s.agents().Problems == nil })
	require.NotEqual(t, second.Revision, s.agents().Revision)
	require.Contains(t, ends(turn("s4", "hello")), "By the third.")

	status, body := s.call("GET", "/api/v1/sessions/s4/views/front?at=2", "")
	require.Equal(t, 200, status, body)
	require.Contains(t, body, `"sent":`)
	require.Equal(t, 0, s.stop(os.Interrupt), "%s", s.said)
	require.NotContains(t, s.said.String(), "browser", "there is no terminal")
}

// Only dev at a loopback address lets its owner change an agent in a fork, and has a route for tools by hand.
func TestDevWorkshop(t *testing.T) {
	t.Parallel()
	dir, save := ownDesk(t)
	save("billing.md", "---\nname: billing\ndescription: Bills\nstate: [tier]\n---\nThe user's tier is {tier}.\n")
	script := answers(scripted.Reply(scripted.Text("As it is.")), scripted.Reply(scripted.Text("As it was changed.")), scripted.Reply(scripted.Text("As it was changed.")))
	s := invocation{env: serve(t, script), server: "dev"}.serve(t, dir, "--db", ":memory:", "--no-open")
	has := func(s *served, want bool) {
		t.Helper()
		_, me := s.call("GET", "/api/v1/me", "")
		require.Contains(t, me, fmt.Sprintf(`"workshop":%t`, want))
		status, body := s.call("POST", "/api/v1/agents/support/tools/none", `{"input":{}}`)
		require.Equal(t, 404, status)
		require.Equal(t, want, strings.Contains(body, "the agent has no tool with this name"), body)
		status, body = s.call("GET", "/api/v1/agents/support/body", "")
		require.Equal(t, want, status == 200, body)
	}
	has(s, true)
	status, body := s.call("POST", "/api/v1/sessions", `{"id":"s","content":"hello"}`)
	require.Equal(t, 202, status, body)
	text := func(id, want string) {
		t.Helper()
		must.Wait(t, func() bool {
			_, body := s.call("GET", "/api/v1/sessions/"+id+"/events?types=text", "")
			return strings.Contains(body, want)
		})
	}
	text("s", "As it is.")
	status, body = s.call("POST", "/api/v1/sessions/s/forks", `{"at":1,"id":"f","resume":true,"change":{"agent":"support","instructions":"Rhyme."}}`)
	require.Equal(t, 201, status, body)
	text("f", "As it was changed.")
	asked := script.Requests("model")
	require.Contains(t, asked[len(asked)-1].System, "Rhyme.")
	require.NotContains(t, asked[0].System, "Rhyme.")
	_, body = s.call("GET", "/api/v1/agents/support", "")
	require.NotContains(t, body, "Rhyme.", "the tree is as it was")
	require.Contains(t, body, `"source":{"file"`)
	require.Contains(t, body, `"workshop":{"tools":[],"restart":false}`)
	status, body = s.call("POST", "/api/v1/sessions/s/forks", `{"at":1,"change":{"agent":"nobody","instructions":"Rhyme."}}`)
	require.Equal(t, 422, status, body)
	require.Contains(t, body, `no file describes an agent \"nobody\"`)

	// The owner writes other instructions into the file, and the next turn uses them.
	var old, read server.Body
	_, body = s.call("GET", "/api/v1/agents/support/body", "")
	require.NoError(t, json.Unmarshal([]byte(body), &old))
	file := filepath.Join(dir, "support.md")
	before := must.Get(os.ReadFile(file))
	require.Contains(t, string(before), old.Text)
	write := func(agent, text, version string, want int, says string) {
		t.Helper()
		sent := must.Get(json.Marshal(server.Body{Text: text, Version: version}))
		status, body = s.call("PUT", "/api/v1/agents/"+agent+"/body", string(sent))
		require.Equal(t, want, status, body)
		require.Contains(t, body, says)
	}
	var billing server.Body
	_, body = s.call("GET", "/api/v1/agents/billing/body", "")
	require.NoError(t, json.Unmarshal([]byte(body), &billing))
	write("billing", "You bill.", billing.Version, 422, "the body does not hold {tier}")
	write("support", "a\r\r\nb", old.Version, 422, "read as another one")
	write("support", "Sing.", "another", 409, "file_changed")
	same := must.Get(os.ReadFile(file))
	require.Equal(t, string(before), string(same))
	results := make(chan int, 8)
	for range cap(results) { // at once, only one of them has the version that it read
		go func() {
			status, _ := s.call("PUT", "/api/v1/agents/support/body", fmt.Sprintf(`{"text":"\n\nSing.\n","version":%q}`, old.Version))
			results <- status
		}()
	}
	wrote := map[int]int{}
	for range cap(results) {
		wrote[<-results]++
	}
	require.Equal(t, map[int]int{200: 1, 409: 7}, wrote)
	_, body = s.call("GET", "/api/v1/agents/support/body", "")
	require.NoError(t, json.Unmarshal([]byte(body), &read))
	after := must.Get(os.ReadFile(file))
	require.Equal(t, strings.Replace(string(before), old.Text, "Sing.", 1), string(after))
	write("support", "Dance.", old.Version, 409, "file_changed")
	must.Wait(t, func() bool {
		_, body := s.call("GET", "/api/v1/agents/support", "")
		return strings.Contains(body, "Sing.")
	})
	status, body = s.call("GET", "/api/v1/agents/nobody/body", "")
	require.Equal(t, 404, status, body)
	require.Equal(t, 0, s.stop(os.Interrupt), "%s", s.said)

	fixed := invocation{env: serve(t, answers()), server: "dev"}.serve(t, dir, "--db", ":memory:", "--no-open", "--no-reload")
	_, body = fixed.call("GET", "/api/v1/agents/support", "")
	require.Contains(t, body, `"restart":true`)
	require.Equal(t, 0, fixed.stop(os.Interrupt), "%s", fixed.said)

	for name, args := range map[string][]string{"serve": nil, "dev": {"--addr", "0.0.0.0:0"}} {
		other := invocation{env: serve(t, answers()), server: name}.serve(t, append([]string{dir, "--db", ":memory:"}, args...)...)
		has(other, false)
		require.Equal(t, 0, other.stop(os.Interrupt), "%s", other.said)
	}
}

// On a terminal with a display the page is opened, with the address that is printed.
func TestDevOpens(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "darwin" {
		t.Skip("every terminal of macOS has a display")
	}
	bin, ways := t.TempDir(), filepath.Join(t.TempDir(), "address")
	cat := must.Get(exec.LookPath("cat"))
	sh := must.Get(exec.LookPath("sh"))
	require.NoError(t, exec.Command("mkfifo", ways).Run())
	require.NoError(t, os.WriteFile(filepath.Join(bin, "xdg-open"), []byte("#!"+sh+"\n"+cat+" > '"+ways+"' <<END\n$1\nEND\n"), 0o700))
	env := []string{"ARBOR_TOKEN=" + token, "NO_COLOR=1", "TERM=dumb"}
	args := []string{"dev", desk, "--addr", "127.0.0.1:0", "--db", ":memory:"}

	s := invocation{env: append(env, "DISPLAY=:9", "PATH="+bin)}.onScreen(t, args...)
	seen := s.until("(once, within five minutes)")
	opened := make(chan struct{})
	var address []byte
	var err error
	go func() {
		address, err = os.ReadFile(ways)
		close(opened)
	}()
	receive(t, opened)
	require.NoError(t, err)
	said := pageAddress.FindStringSubmatch(seen)
	require.NotNil(t, said, seen)
	require.Equal(t, said[1]+"/inspect/#code="+said[2]+"\n", string(address))
	stop := func(s *screen) (seen string) {
		t.Helper()
		seen = s.until("\nhttp://") // on standard output, when all else was said
		base, _, _ := strings.Cut(s.until("\n"), "\r")
		resp := must.Get(http.Get("http://" + base + "/.well-known/agent-card.json"))
		require.NoError(t, resp.Body.Close())
		s.enter("\x03")
		require.Equal(t, 0, s.status())
		return seen
	}
	stop(s)

	none := t.TempDir()
	for _, tt := range []struct {
		env, args []string
		tried     bool
	}{
		{[]string{"WAYLAND_DISPLAY=wayland-0"}, nil, true},
		{nil, nil, false},
		{[]string{"DISPLAY=:9"}, []string{"--no-open"}, false},
		{[]string{"DISPLAY=:9"}, []string{"--apis", "api,a2a"}, false},
	} {
		seen := stop(invocation{env: append(append(env, "PATH="+none), tt.env...)}.onScreen(t, append(args, tt.args...)...))
		require.Equal(t, tt.tried, strings.Contains(seen, "no browser was opened: "), seen)
	}
	got := invocation{}.run(t, "serve", desk, "--no-open").exits(t, cli.StatusUsage)
	require.Contains(t, got.err, "unknown flag: --no-open")
}

// ownDesk copies the desk, so that its files can be changed, and returns its path with a function
// that saves a file as editors do: beside it, and then renamed into its place.
func ownDesk(t *testing.T) (dir string, save func(name, content string)) {
	dir = filepath.Join(t.TempDir(), "desk")
	require.NoError(t, os.CopyFS(dir, os.DirFS(desk)))
	return dir, func(name, content string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path+"~", []byte(content), 0o600))
		require.NoError(t, os.Rename(path+"~", path))
	}
}

const rewritten = "---\nname: front\nsubagents: [billing, tech, night]\n---\nYou were written anew.\n"

// A served tree follows its files: a turn under way ends with the old one, the next begins with
// the new one, and so does the card. What cannot be used changes nothing, and is said once.
func TestServeReloads(t *testing.T) {
	t.Parallel()
	dir, save := ownDesk(t)
	answer, asked, release := slow("The old one says so.")
	script := answers(answer, scripted.Reply(scripted.Text("The new one.")), scripted.Reply(scripted.Text("Still the new one.")))
	s := invocation{env: serve(t, script)}.serve(t, dir, "--db", ":memory:")
	begun, lines := s.stream("first")
	receive(t, asked)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "night.md"), []byte("---\n---\nYou work at night.\n"), 0o600))
	save("support.md", rewritten)
	s.said.until(t, "arbor: the files have changed: front with 4 agents from now on\n", 1)
	require.Equal(t, "front", s.card("").Name)
	require.Equal(t, "The new one.", s.send("second").words())
	close(release)
	for lines.Scan() { // until the first turn is over
	}
	require.Equal(t, "The old one says so.", s.get(begun.ID).words())
	asks := script.Requests("model")
	require.Contains(t, asks[0].System, "You find the right specialist.")
	require.Contains(t, asks[1].System, "You were written anew.")

	save("tech.md", "---\nname: tech\ndescripton: typo\n---\n")
	problem := filepath.Join(dir, "tech.md") + `:3: unknown key "descripton"; did you mean "description"?`
	s.said.until(t, "arbor: the files have changed and cannot be used; the tree stays as it was\n"+problem+"\n", 1)
	save("billing.md", "---\nname: billing\nmodle: x\n---\n")
	s.said.until(t, `:3: unknown key "modle"`, 1)
	require.Equal(t, "Still the new one.", s.send("third").words())
	require.Contains(t, script.Requests("model")[2].System, "You were written anew.")
	require.Equal(t, 0, s.stop(os.Interrupt), "%s", s.said)
}

// A tree that is not to follow its files does not.
func TestNoReload(t *testing.T) {
	t.Parallel()
	dir, save := ownDesk(t)
	script := answers(scripted.Reply(scripted.Text("The old one.")))
	s := invocation{env: serve(t, script)}.serve(t, dir, "--db", ":memory:", "--no-reload")
	save("support.md", rewritten)
	require.Equal(t, "The old one.", s.send("hello").words())
	require.Contains(t, script.Requests("model")[0].System, "You find the right specialist.")
	require.Equal(t, 0, s.stop(os.Interrupt))
	require.NotContains(t, s.said.String(), "the files have changed")
	got := invocation{program: "embedded"}.run(t, "chat", "--no-reload")
	require.Contains(t, got.err, "unknown flag: --no-reload")
}

// On a terminal the news come above the line that is being typed, which stays.
func TestChatReloads(t *testing.T) {
	t.Parallel()
	dir, save := ownDesk(t)
	answer, asked, release := slow("The old one says so.")
	script := answers(answer, scripted.Reply(scripted.Text("The new one.")))
	s := invocation{env: append(serve(t, script), "NO_COLOR=1")}.onScreen(t, "chat", dir, "--db", ":memory:")
	s.say("hello")
	receive(t, asked)
	save("support.md", strings.Replace(rewritten, ", night", "", 1))
	close(release)
	require.NotContains(t, s.until("The old one says so."), "the files have changed", "the answer is not interrupted")
	s.until("the files have changed: front with 3 agents from now on")
	s.until("you> ")
	s.enter("and no")
	s.until("and no")
	save("tech.md", "---\nname: [\n---\n")
	s.until("cannot be used; the tree stays as it was")
	s.until("tech.md:")
	s.until("and no") // is drawn again
	s.enter("w?\r")
	s.until("front: The new one.")
	s.say("/agents")
	s.until("front ← active")
	s.enter("/quit\r")
	require.Equal(t, 0, s.status())
	asks := script.Requests("model")
	require.Contains(t, asks[0].System, "You find the right specialist.")
	require.Contains(t, asks[1].System, "You were written anew.")
	require.Equal(t, "and now?", asks[1].Messages[len(asks[1].Messages)-1].Text)
}
