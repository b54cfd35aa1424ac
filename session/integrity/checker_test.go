package integrity_test

import (
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session/integrity"
)

// whole is a log of two turns that obeys every law: a transfer, tools, an agent tool,
// an approval, a workflow with two children, and a run that was cut off.
const whole = `
t1 u1 user user {"content":"Hi"}
t1 r1 support harness_start {"agentId":"support"} <u1:user
t1 r1 support reasoning {"content":"hm"}
t1 r1 support text {"content":"One moment."}
t1 r1 support tool_call {"name":"look","input":{}} #c1
t1 r1 support tool_call {"name":"transfer_to_agent","input":{}} #c2
t1 r1 support usage {}
t1 r1 support file {"name":"a.txt","mediaType":"text/plain","size":1,"digest":"sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","toolCallId":"c1"}
t1 r1 support tool_result {"name":"look","output":1} #c1
t1 r1 support tool_result {"name":"transfer_to_agent","output":"ok"} #c2
t1 r1 support transfer {"from":"support","to":"billing","toolCallId":"c2","outcome":"committed"}
t1 r1 support harness_end {"agentId":"support","finishReason":"transfer","target":"billing"}
t1 r2 billing harness_start {"agentId":"billing"} <r1:harness_end
t1 r2 billing tool_call {"name":"pay","input":{}} #c3
t1 r2 billing tool_call {"name":"ask","input":{}} #c4
t1 r2 billing usage {}
t1 r3/s1 expert harness_start {"agentId":"expert","input":"go"} <c4
t1 r3/s1 expert text {"content":"So."}
t1 r3/s1 expert usage {}
t1 r3/s1 expert harness_end {"agentId":"expert","finishReason":"stop"}
t1 r2 billing tool_result {"name":"ask","output":"So."} #c4
t1 r2 billing relay {"kind":"permission","toolCallId":"c3","tool":"pay"} #q1
t1 r2 billing harness_end {"agentId":"billing","finishReason":"input_required"}
t1 r2 billing relay_resolved {"relayId":"q1","approved":true}
t1 r2 billing state {"delta":{"city":"Oslo"}}
t1 r4 billing harness_start {"agentId":"billing"} <r2:harness_end
t1 r2 billing tool_result {"name":"pay","output":2} #c3
t1 r4 billing text {"content":"Done."}
t1 r4 billing usage {}
t1 r4 billing harness_end {"agentId":"billing","finishReason":"stop"}
t2 u2 user user {"content":"Both"} <r4:harness_end
t2 r5 graph harness_start {"agentId":"graph"} <u2:user
t2 r6/r5.1/a a harness_start {"agentId":"a"} <r5:harness_start
t2 r7/r5.2/b b harness_start {"agentId":"b"} <r5:harness_start
t2 r6/r5.1/a a harness_end {"agentId":"a","finishReason":"stop"}
t2 r7/r5.2/b b harness_end {"agentId":"b","finishReason":"canceled"}
t2 r5 graph harness_end {"agentId":"graph","finishReason":"canceled"}
`

// events reads lines of the form: turn, run or run/scope, agent, type, payload, and
// perhaps the id and the cause.
func events(t *testing.T, text string) (log []*event.Event) {
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.SplitN(line, " ", 5)
		require.Len(t, f, 5, line)
		run, scope, _ := strings.Cut(f[1], "/")
		payload, id, parent := f[4], "", ""
		if at := strings.LastIndex(payload, " <"); at > 0 {
			payload, parent = payload[:at], payload[at+2:]
		}
		if at := strings.LastIndex(payload, " #"); at > 0 {
			payload, id = payload[:at], payload[at+2:]
		}
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(payload), &fields), line)
		for name, value := range map[string]any{"seq": i + 1, "turnId": f[0], "runId": run, "agent": f[2], "type": f[3], "id": id, "scope": scope, "parentId": parent,
			"time": "2026-03-01T12:00:00Z"} {
			if value != "" {
				fields[name] = value
			}
		}
		if id == "" {
			fields["id"] = "i" + strings.Repeat("x", i)
		}
		data := must.Get(json.Marshal(fields))
		e := new(event.Event)
		require.NoError(t, e.UnmarshalJSON(data), line)
		log = append(log, e)
	}
	return log
}

func seq(log []*event.Event, failed error) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for _, e := range log {
			if !yield(e, nil) {
				return
			}
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
}

func check(t *testing.T, text string) []string {
	found := must.Get(integrity.Check(seq(events(t, text), nil)))
	var lines []string
	for _, v := range found {
		lines = append(lines, v.String())
	}
	return lines
}

func TestWhole(t *testing.T) {
	require.Empty(t, check(t, whole))
	lines := strings.SplitAfter(strings.TrimSpace(whole), "\n")
	for n := range lines { // a log obeys the laws wherever it was cut off, but within a write
		if n == 10 {
			continue
		}
		require.Empty(t, check(t, strings.Join(lines[:n+1], "")), "the first %d", n+1)
	}
}

// TestViolations breaks each law in turn: a line of the whole log is replaced, and the
// lines after it stay.
func TestViolations(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"two starts":            {"t1 r2 billing harness_start", "t1 r1 billing harness_start", "the run r1 starts twice"},
		"never started":         {"t1 r4 billing text", "t1 r9 billing text", "which never started"},
		"another agent":         {"t1 r4 billing text", "t1 r4 support text", `belongs to a run of "billing"`},
		"another scope":         {"t1 r3/s1 expert text", "t1 r3 expert text", `a run of "expert" in the scope "s1"`},
		"after its end":         {"t1 r4 billing text", "t1 r1 support text", "after the end of its run"},
		"state after its end":   {"t1 r4 billing text", "t1 r2 billing state {\"delta\":{}}\nt1 r4 billing text", "a state after the end of its run"},
		"two ends":              {"t2 u2 user user {\"content\":\"Both\"}", "t1 r4 billing harness_end {\"agentId\":\"billing\",\"finishReason\":\"stop\"}", "a harness_end after the end of its run"},
		"an unknown cause":      {"<r1:harness_end", "<r9:harness_end", "no earlier event is"},
		"another cause":         {"<r1:harness_end", "<u1:user", "not the end of the run r1"},
		"no cause":              {" <u1:user", "", "without a cause"},
		"no result":             {"t1 r2 billing tool_result {\"name\":\"ask\",\"output\":\"So.\"} #c4\n", "t1 r2 billing usage {}\n", "before the call \"c4\" has a result"},
		"no result at the end":  {"t1 r1 support tool_result {\"name\":\"look\",\"output\":1} #c1", "t1 r1 support notice {\"code\":\"x\",\"message\":\"\"}", "calls that have no result"},
		"two results":           {"\"output\":\"ok\"} #c2", "\"output\":\"ok\"} #c1", "a second result"},
		"a result of nothing":   {"\"output\":2} #c3", "\"output\":2} #c9", "without a call"},
		"another tool":          {"tool_result {\"name\":\"pay\"", "tool_result {\"name\":\"play\"", "belongs to a call of \"pay\""},
		"another run's result":  {"t1 r2 billing tool_result {\"name\":\"pay\"", "t1 r4 billing tool_result {\"name\":\"pay\"", "belongs to a call of \"pay\" in the run r2"},
		"words before results":  {"t1 r1 support tool_result {\"name\":\"look\",\"output\":1} #c1", "t1 r1 support text {\"content\":\"So\"}", "the model answers before the call"},
		"an id twice":           {"#q1", "#c3", "is used twice"},
		"nobody asked":          {"\"toolCallId\":\"c3\"", "\"toolCallId\":\"c1\"", "is not an open call, or has a question already"},
		"a wait without reason": {"t1 r2 billing relay {\"kind\":\"permission\",\"toolCallId\":\"c3\",\"tool\":\"pay\"} #q1", "t1 r2 billing notice {\"code\":\"x\",\"message\":\"\"}", "no question was asked"},
		"another decision":      {"\"relayId\":\"q1\"", "\"relayId\":\"q2\"", "is not an open question"},
		"a decision too late":   {"t1 r4 billing text {\"content\":\"Done.\"}", "t1 r4 billing relay_resolved {\"relayId\":\"q1\",\"approved\":true}", "is not an open question"},
		"an unknown outcome":    {"\"outcome\":\"committed\"", "\"outcome\":\"\"", "a transfer with the outcome"},
		"a transfer elsewhere":  {"\"target\":\"billing\"", "\"target\":\"tech\"", "its run does not end with it"},
		"a scope left open":     {"t2 r7/r5.2/b b harness_end {\"agentId\":\"b\",\"finishReason\":\"canceled\"}\n", "t2 r5 graph notice {\"code\":\"x\",\"message\":\"\"}\n", "before the scope \"r5.2/b\""},
		"a target left out": {"t1 r3/s1 expert harness_end {\"agentId\":\"expert\",\"finishReason\":\"stop\"}",
			"t1 r3/s1 expert transfer {\"from\":\"expert\",\"to\":\"x\",\"outcome\":\"committed\"}\nt1 r3/s1 expert harness_end {\"agentId\":\"expert\",\"finishReason\":\"transfer\",\"target\":\"x\"}",
			"before the target of the transfer inside it has run"},
		"nobody opened it":     {"<c4", "<q1", "no earlier event is"},
		"opened too late":      {"t1 r4 billing text {\"content\":\"Done.\"}\nt1 r4 billing usage {}\nt1 r4 billing harness_end {\"agentId\":\"billing\",\"finishReason\":\"stop\"}\n", "t1 r4 billing text {\"content\":\"Done.\"}\nt1 r4 billing usage {}\nt1 r4 billing harness_end {\"agentId\":\"billing\",\"finishReason\":\"stop\"}\nt1 r8/s2 expert harness_start {\"agentId\":\"expert\"} <c4\n", "no open run has opened"},
		"two runs at once":     {"t1 r2 billing harness_start {\"agentId\":\"billing\"} <r1:harness_end\n", "t1 r2 billing harness_start {\"agentId\":\"billing\"} <r1:harness_end\nt1 r8 billing harness_start {\"agentId\":\"billing\"} <r1:harness_end\n", "starts while r2 is open"},
		"the user in between":  {"t2 r5 graph harness_end {\"agentId\":\"graph\",\"finishReason\":\"canceled\"}", "t3 u3 user user {\"content\":\"And\"}", "a turn starts while"},
		"another turn":         {"t1 r4 billing harness_start", "t2 r4 billing harness_start", "starts in another turn"},
		"another turn's words": {"t1 r4 billing text", "t2 r4 billing text", "of another turn"},
		"a file of nothing":    {"\"toolCallId\":\"c1\"}", "\"toolCallId\":\"c9\"}", "is not an open call"},
		"a file without bytes": {"sha256:2d71", "sha256:", "the file a.txt needs a normalized media type"},
		"a file elsewhere":     {"\"a.txt\"", "\"../a.txt\"", "the file name"},
		"takes up nothing": {"t2 r5 graph harness_start {\"agentId\":\"graph\"} <u2:user\n",
			"t2 r5 graph harness_start {\"agentId\":\"graph\"} <u2:user\nt2 r5 graph notice {\"code\":\"forked\",\"message\":\"\"}\n", "resumes no run of its agent"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, whole, c.old)
			require.Contains(t, strings.Join(check(t, strings.Replace(whole, c.old, c.new, 1)), "\n"), c.want)
		})
	}
}

func TestEnvelopes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(e *event.Event)
		want   string
	}{
		"a gap":           {func(e *event.Event) { e.Seq++ }, "the position should be 4"},
		"a partial event": {func(e *event.Event) { e.Partial = true }, "partial"},
		"no id":           {func(e *event.Event) { e.ID = "" }, "no id, turn, run or type"},
		"no turn":         {func(e *event.Event) { e.TurnID = "" }, "no id, turn, run or type"},
		"an old time":     {func(e *event.Event) { e.Time = e.Time.Add(-1) }, "the time goes back"},
	} {
		t.Run(name, func(t *testing.T) {
			log := events(t, whole)
			c.change(log[3])
			found := must.Get(integrity.Check(seq(log, nil)))
			require.NotEmpty(t, found)
			require.Contains(t, found[0].String(), c.want)
			require.Equal(t, log[3].Seq, found[0].Seq)
		})
	}
}

func TestReadingFails(t *testing.T) {
	failed := errors.New("the disk is gone")
	log := events(t, whole)
	log[3].ID = ""
	found, err := integrity.Check(seq(log[:5], failed))
	require.ErrorIs(t, err, failed)
	require.Len(t, found, 1)
}

// FuzzChecker: whatever a log holds, it is checked without a panic.
func FuzzChecker(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 6, 7, 9, 10, 11})
	f.Fuzz(func(t *testing.T, order []byte) {
		all := events(t, whole)
		var c integrity.Checker
		for _, b := range order {
			c.Add(all[int(b)%len(all)])
			if b%7 == 0 {
				c.Violations()
			}
		}
		c.Violations()
	})
}

// TestUnreadable: behind an event that cannot be read, what follows says little.
func TestUnreadable(t *testing.T) {
	log := events(t, whole)
	log[0] = event.Decode(1, []byte(`{"type":"user"`))
	found := must.Get(integrity.Check(seq(log, nil)))
	require.Len(t, found, 1)
	require.Equal(t, "seq 1: the event cannot be read; only the positions of later events were checked", found[0].String())
	found = must.Get(integrity.Check(seq(append(log[:5], log[6:]...), nil)))
	require.Len(t, found, 2, "but for gaps")
}
