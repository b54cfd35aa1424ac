//go:build unix

package cli_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/peerfolder"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm/scripted"
)

// Two windows of the page and a terminal are at one session while the server is killed in mid-answer
// and started again. All of them take the words back that were never stored, show the answer that came
// instead, once, and go on.
func TestPageOutlivesServer(t *testing.T) {
	t.Parallel()
	inspector := peerfolder.Folder{Path: "../web/inspector", Name: "web/inspector", Of: "the page", Probe: "playwright-core"}
	node, script := inspector.Node(t, "e2e", "killed.mjs")
	peerfolder.Chromium(t)
	addr, db := servers.Address(t), filepath.Join(t.TempDir(), "s.db")
	asked, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	half := scripted.Reply(scripted.Text("I look in"), scripted.Wait(func(ctx context.Context) error {
		close(asked)
		return until(release)(ctx)
	}), scripted.Text(" never heard"))
	model := answers(scripted.Reply(scripted.Text("One moment. "), scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`)),
		half, scripted.Reply(scripted.Text("It is refunded.")), scripted.Reply(scripted.Text("Good bye.")))
	env := serve(t, model)
	in := invocation{env: env, others: true}
	s := in.serve(t, desk, "--db", db, "--addr", addr)
	s.said.until(t, "#code=", 1)
	code := regexp.MustCompile(`#code=(\w+)`).FindStringSubmatch(s.said.String())
	require.NotNil(t, code)
	at := atServer(t)
	at.others = true
	terminal := at.onScreen(t, "chat", "--server", s.base, "--session", "s1")
	terminal.say("I was charged twice")
	terminal.until("billing: I look in")
	receive(t, asked)

	// The script asks for what is done to the server; it is done here.
	does, done := make(chan string), make(chan struct{})
	controls := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		if what := path.Base(r.URL.Path); what == "code" {
			answer = code[1]
		} else {
			does <- what
			<-done
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"answer": answer}) // it notices
	}))
	defer controls.Close()
	given := must.Get(json.Marshal(map[string]string{"base": s.base, "control": controls.URL, "token": token, "script": "killed"}))
	cmd := exec.CommandContext(t.Context(), node, script)
	cmd.Env = append(os.Environ(), "ARBOR_E2E="+string(given))
	said := &words{}
	cmd.Stdout, cmd.Stderr = said, said
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	for {
		select {
		case what := <-does:
			switch what {
			case "kill":
				require.NotEqual(t, 0, s.stop(syscall.SIGKILL))
			case "start":
				s = in.serve(t, desk, "--db", db, "--addr", addr)
			}
			done <- struct{}{}
			continue
		case err = <-ended:
		}
		break
	}
	require.NoError(t, err, "%s", said)
	terminal.until("billing: It is refunded.")
	terminal.until("Good bye.")
	terminal.enter("/quit\r")
	require.Equal(t, 0, terminal.status())
	require.NoError(t, model.Done(), "what was recorded is not asked for again")
	require.Equal(t, 0, s.stop(os.Interrupt))
}
