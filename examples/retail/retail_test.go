// Package retail_test runs the example: three teams in processes of their own, a router in front
// of them, and a person at a desk.
package retail_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/exampletest"
	"github.com/agentarbor/arbor/internal/testing/race"
)

// arbor is the command.
var arbor string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "retail")
	if err == nil && !race.Enabled {
		arbor = filepath.Join(dir, "arbor")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", arbor, "../../cmd/arbor").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	status := 1
	if err == nil {
		status = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

// shop is the example with its teams running.
type shop struct {
	*testing.T
	env   []string
	teams map[string]*exec.Cmd
}

func open(t *testing.T, env ...string) *shop {
	race.SkipPrograms(t)
	dir := t.TempDir()
	s := &shop{T: t, teams: make(map[string]*exec.Cmd)}
	s.env = append([]string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, env...)
	for _, team := range []string{"returns", "billing", "orders"} {
		cmd := s.command("serve", "teams/"+team, "--addr", "127.0.0.1:0", "--no-token", "--db", filepath.Join(dir, team+".db"))
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		card, err := bufio.NewReader(stdout).ReadString('\n')
		require.NoError(t, err)
		s.teams[team] = cmd
		s.env = append(s.env, fmt.Sprintf("%s_URL=%s", strings.ToUpper(team), strings.TrimSpace(card)))
	}
	return s
}

func (s *shop) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	s.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, arbor, args...)
	cmd.Env = s.env
	return cmd
}

func (s *shop) run(args ...string) string {
	s.Helper()
	out, err := s.command(args...).CombinedOutput()
	require.NoError(s, err, string(out))
	return string(out)
}

func (s *shop) says(words string) string {
	s.Helper()
	return s.run("run", "triage.yaml", words, "--session", "s1")
}

// TestTeams: each message goes to the team that it is for, also without words of a rule.
func TestTeams(t *testing.T) {
	t.Parallel()
	s := open(t)
	require.Contains(t, s.says("I was charged twice on my credit card"), "triage → billing (about money)\nbilling: ")
	require.Contains(t, s.says("And can I return the shoes?"), "triage → returns (something goes back)\nreturns: ")
	require.Contains(t, s.says("They are blue."), "triage → returns", "who answered before stays where no rule matches")
	require.Contains(t, s.says("Where is order 1234?"), "triage → orders (about an order)\norders: ")
	require.Contains(t, s.says("The jacket is too small and does not fit"), "triage → returns (it sounds like a return)\nreturns: ")
	require.Contains(t, s.run("sessions", "check"), "nothing is wrong")
	require.Contains(t, s.run("router", "explain", "triage.yaml", "Where is order 1234?"), "orders")
}

// TestEndpoint: the teams ask the endpoint that the environment names.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	env, requests := exampletest.Endpoint(t)
	s := open(t, env...)
	require.Contains(t, s.says("I was charged twice on my credit card"), "triage → billing (about money)\nbilling: ")
	require.NotZero(t, requests())
}

// TestFrustrated: two angry messages lead to a person, and so does a team that is gone; one
// angry message does not.
func TestFrustrated(t *testing.T) {
	t.Parallel()
	s := open(t)
	angry := "This is ridiculous, I am so angry about this terrible delivery!!!"
	require.Contains(t, s.says(angry), "triage → orders")
	require.Contains(t, s.says(angry), "triage → human (the customer is frustrated)")
	s.run("desk", "set", "s1", "completed", "--to", "triage")
	require.NoError(t, s.teams["returns"].Process.Kill())
	_ = s.teams["returns"].Wait()
	out := s.says("I want to return the shoes")
	require.Contains(t, out, "human: I have asked for a person to join us.")
	require.Contains(t, s.run("desk", "ls"), "queued")
	require.Contains(t, s.run("sessions", "check"), "nothing is wrong")
}

// TestPerson: the customer in one process and the person in another talk to each other, also
// when the customer's process is killed.
func TestPerson(t *testing.T) {
	t.Parallel()
	s := open(t)
	begin := func(args ...string) (kill func(), tell, hears func(string)) {
		cmd := s.command(args...)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
		lines := bufio.NewScanner(out)
		return func() { _ = cmd.Process.Kill() }, func(line string) {
				_, err := io.WriteString(in, line+"\n")
				require.NoError(t, err)
			}, func(want string) {
				t.Helper()
				var heard []string
				for lines.Scan() {
					if heard = append(heard, lines.Text()); strings.Contains(lines.Text(), want) {
						return
					}
				}
				t.Fatalf("%q was never heard, but %q", want, heard)
			}
	}
	kill, tell, hears := begin("chat", "triage.yaml", "--session", "s1")
	tell("Let me talk to a real person, please")
	hears("triage → human (the customer asked for a person)")
	hears("queued")
	_, answer, learns := begin("desk", "take", "--name", "Ann")
	learns("Let me talk to a real person, please")
	answer("Ann here. What is your order?")
	hears("human: Ann here. What is your order?")
	kill()
	_, tell, hears = begin("chat", "triage.yaml", "--session", "s1")
	tell("1234, and I want a refund")
	learns("user: 1234, and I want a refund")
	answer("It is on its way.")
	hears("human: It is on its way.")
	answer("/done Good bye.")
	hears("human: Good bye.")
	tell("I also have a question about my invoice")
	hears("triage → billing (about money)")
	require.Contains(t, s.run("sessions", "check"), "nothing is wrong")
}
