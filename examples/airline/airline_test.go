package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/exampletest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/server/client"
)

// TestMain also runs the MCP server, which is this program with another argument.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"airport"}) {
		main()
		return
	}
	exampletest.Main(m, main)
}

// run runs the command in this process.
func run(t *testing.T, ctx context.Context, d *desk, env []string, out io.Writer, args ...string) (status int) {
	getenv := exampletest.Getenv(append(env, "AIRLINE="+must(os.Executable())))
	streams := cli.Streams{Stdin: strings.NewReader(""), Stdout: out, Stderr: t.Output(), Getenv: getenv}
	return cli.Run(ctx, args, streams, options(d)...)
}

// serve serves the desk on the sessions in a folder until stop is called.
func serve(t *testing.T, d *desk, env []string, dir string) (address string, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		run(t, ctx, d, env, out, "serve", "--addr", "127.0.0.1:0", "--db", dir+"/airline.db", "--users", dir+"/users.yaml")
		ended <- out.Close()
	}()
	address, err := bufio.NewReader(in).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(address), func() { cancel(); <-ended }
}

// wait returns a turn when it is over or waits.
func wait(t *testing.T, c *client.Client, turn *client.Turn, err error) *client.Turn {
	require.NoError(t, err)
	turn, err = c.Wait(t.Context(), "s1", turn.ID)
	require.NoError(t, err)
	return turn
}

// TestRefund: no money moves until the staff has decided, which here happens at another server than the question.
func TestRefund(t *testing.T) {
	script := must(scripted.Parse([]byte(`
airline: expect system "coordinator" call transfer_to_agent {"agent_name": "trips"}
airline: expect system "have a booking" call transfer_to_agent {"agent_name": "refunds"}
airline: expect system "refund bookings" call flight_status {"flight_id": "MA101"}
airline: expect result "cancelled" call find_booking {"booking_id": "BK7001"}
airline: expect result "149" call refund_booking {"booking_id": "BK7001"}
airline: expect result "paid back" "Your 149 euros are on their way."
airline: expect user "Again" call refund_booking {"booking_id": "BK7001"}
airline: expect result "refunded before" "You have it already."
`)))
	models := must(endpoint.Start(script.Models()))
	defer models.Close()
	env := []string{"OPENAI_BASE_URL=" + models.URL(), "OPENAI_MODEL=airline", "ARBOR_TOKEN=the-owner"}
	d, dir := must(openDesk(filepath.Join(t.TempDir(), "airline.db"))), t.TempDir()
	defer d.db.Close()
	refunds := func() (n int) {
		require.NoError(t, d.db.QueryRow("SELECT COALESCE(SUM(amount), 0) FROM refunds").Scan(&n))
		return n
	}
	token := func(args ...string) client.Option {
		var out bytes.Buffer
		require.Zero(t, run(t, t.Context(), d, nil, &out, append(args, "--users", dir+"/users.yaml")...))
		return client.WithToken(strings.TrimSpace(out.String()))
	}
	ada, bob := token("users", "add", "ada"), token("users", "add", "bob", "--may", "refunds")

	address, stop := serve(t, d, env, dir)
	require.Equal(t, http.StatusOK, must(http.Get(address+"/inspect/")).StatusCode)
	traveller := must(client.New(address, ada))
	say := func(text string) *client.Turn {
		turn, err := traveller.Begin(t.Context(), "s1", client.Message{Content: llm.Content{Text: text}})
		return wait(t, traveller, turn, err)
	}
	turn := say("MA101 is cancelled. My money back for BK7001, please.")
	require.Equal(t, []string{"refunds"}, turn.Pending[0].By)
	yes := client.Decision{CallID: turn.Pending[0].CallID, Approved: true}
	_, err := traveller.Decide(t.Context(), "s1", turn.ID, yes)
	require.ErrorContains(t, err, "a colleague has to approve this")
	require.Zero(t, refunds())
	stop()

	address, stop = serve(t, d, env, dir)
	defer stop()
	traveller = must(client.New(address, ada))
	staff := must(client.New(address, bob)).Of("ada")
	_, err = staff.Decide(t.Context(), "s1", turn.ID, yes)
	require.Equal(t, "Your 149 euros are on their way.", wait(t, traveller, turn, err).Text)
	require.Equal(t, 149, refunds())
	_, err = staff.Decide(t.Context(), "s1", turn.ID, yes)
	require.ErrorContains(t, err, "was already answered")
	turn = say("Again!")
	_, err = staff.Decide(t.Context(), "s1", turn.ID, client.Decision{CallID: turn.Pending[0].CallID, Approved: true})
	require.Equal(t, "You have it already.", wait(t, traveller, turn, err).Text)
	require.Equal(t, 149, refunds())
	require.NoError(t, script.Done())
}

// TestRouting runs the command offline, and then with an endpoint.
func TestRouting(t *testing.T) {
	endpoint, requests := exampletest.Endpoint(t)
	for _, env := range [][]string{nil, endpoint} {
		before := requests()
		for message, want := range map[string]string{
			"I want to buy a ticket for MA103": "airline → booking",
			"Please refund booking BK7001":     "refund_booking(booking_id=\"BK7001\") → waits for approval",
			"Is flight MA205 delayed?":         "flight_status(flight_id=\"MA205\") → status: delayed by 40 minutes",
			"I want to talk to a human":        "(a person: queued)",
		} {
			out, errs, _ := exampletest.Run(t, env, "run", message, "--db", ":memory:")
			require.Contains(t, out, want, errs)
		}
		require.Equal(t, env != nil, requests() > before)
	}
}
