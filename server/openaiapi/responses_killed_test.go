package openaiapi

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
)

// killedEnv is the database of a server that is to be killed, and what its model says before it hangs; "" is all of
// its answer.
const killedEnv, killedSays = "ARBOR_TEST_RESPONSES_DB", "ARBOR_TEST_RESPONSES_SAYS"

// serveToBeKilled is the server, in a process of its own. Support says a word and hands over to billing.
func serveToBeKilled(t *testing.T, path string) {
	billing := must.Get(llmagent.New("billing", "", scripted.Func("billing", func(*llm.Request) scripted.Answer {
		if part := os.Getenv(killedSays); part != "" {
			return scripted.Reply(scripted.Text(part), scripted.Wait(func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}))
		}
		return scripted.Reply(scripted.Text("It is ", "all ", "paid."))
	})))
	root := must.Get(llmagent.New("support", "", scripted.Always("support", scripted.Reply(scripted.Text("One ", "moment."), scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`))),
		llmagent.WithSubAgents(billing)))
	db := must.Get(sqlite.Open(path))
	store := must.Get(tail.New(db))
	ids := transcript.Counter() // the same in every run of the test, and others in each process
	run := must.Get(runner.New(root, store, runner.WithStreaming(), runner.WithIDs(func() string { return fmt.Sprintf("%x%s", os.Getenv(killedSays), ids()) })))
	turns := must.Get(live.New(run, store))
	handler := must.Get(New(turns, WithGuard(newGuard(t))))
	server := httptest.NewServer(handler)
	fmt.Println("serving " + server.URL)
	select {}
}

// startToBeKilled starts a server whose model says a part of its answer, or all.
func startToBeKilled(t *testing.T, path, part string) (url string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestResponsesKilled$")
	cmd.Env = append(os.Environ(), killedEnv+"="+path, killedSays+"="+part)
	out := must.Get(cmd.StdoutPipe())
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill() // it may be dead
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		if address, ok := strings.CutPrefix(scanner.Text(), "serving "); ok {
			return address + "/v1/responses", kill
		}
	}
	require.Fail(t, "the server has not started")
	return "", nil
}

// TestResponsesKilled kills a server in mid-answer, behind each word that a client has got, and lets the client come
// back to its successor: nothing is lost, nothing comes twice, and no words of two answers are put together.
func TestResponsesKilled(t *testing.T) {
	if path := os.Getenv(killedEnv); path != "" {
		serveToBeKilled(t, path)
	}
	for _, part := range []string{"It is ", "It is unclear, and a much longer story than the other one", "x"} {
		t.Run(part, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sessions.db")
			url, kill := startToBeKilled(t, path, part)
			events := listen(t, http.MethodPost, url, says("hello", "stream", true), shows(part))
			kill()
			id := events[0].Response.ID
			url, kill = startToBeKilled(t, path, "")
			var final *wireResponse
			client := newReader(t)
			for _, ev := range events {
				client.read(ev)
				if ev.Type == "response.created" || ev.Type == "response.content_part.added" {
					continue
				}
				back := client.clone()
				back.read(listen(t, http.MethodGet, url+"/"+id+"?stream=true&starting_after="+strconv.FormatInt(ev.Number, 10), nil, ends)...).whole()
				require.Equal(t, "One moment.It is all paid.", textIn(back.final))
				if final != nil {
					require.Equal(t, final, back.final)
				}
				final = back.final
			}
			kill()
			url, _ = startToBeKilled(t, path, "")
			again := listen(t, http.MethodGet, url+"/"+id+"?stream=true", nil, ends)
			require.Equal(t, final, newReader(t).read(again...).whole().final)
		})
	}
}
