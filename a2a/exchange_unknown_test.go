package a2a_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/runner"
)

// What a peer sends that nobody here knows is left out or told of, and the rest is
// understood.
func TestUnknownThings(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		said   []string
	}{
		"parts":                                  {[]string{taskEvent("WORKING", ""), `{"artifactUpdate":{"taskId":"t1","contextId":"c1","artifact":{"artifactId":"a","parts":[{"text":"See "},{"hologram":{},"mediaType":"x/holo"},{"text":"."}]}}}`, statusEvent("COMPLETED", "")}, []string{"See [part of an unknown kind x/holo]."}},
		"only such parts":                        {[]string{`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"hologram":{}}]}}`}, []string{"[part of an unknown kind]"}},
		"events":                                 {[]string{taskEvent("WORKING", ""), `{"hologramUpdate":{"taskId":"t1"}}`, deltaEvent("a", "Fine."), statusEvent("COMPLETED", "")}, []string{"Fine."}},
		"states":                                 {[]string{taskEvent("HOVERING", ""), statusEvent("LANDING", "wait"), deltaEvent("a", "Fine."), statusEvent("COMPLETED", "")}, []string{"Fine."}},
		"old states":                             {[]string{`{"task":{"id":"t1","contextId":"c1","status":{"state":"completed"},"artifacts":[{"artifactId":"a","parts":[{"text":"Fine."}]}]}}`}, []string{"Fine."}},
		"times":                                  {[]string{`{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED","timestamp":"soon","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"Fine."}]}}}}`}, []string{"Fine."}},
		"roles":                                  {[]string{`{"message":{"messageId":"m","role":"ROLE_ROBOT","parts":[{"text":"Fine."}]}}`}, []string{"Fine."}},
		"no role":                                {[]string{`{"message":{"messageId":"m","parts":[{"text":"Fine."}]}}`}, []string{"Fine."}},
		"our own words":                          {[]string{`{"message":{"messageId":"u","role":"ROLE_USER","parts":[{"text":"hi"}]}}`, messageEvent("Fine.")}, []string{"Fine."}},
		"an empty message":                       {[]string{`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[]}}`}, nil},
		"an empty end":                           {[]string{taskEvent("COMPLETED", "")}, nil},
		"holes":                                  {[]string{`{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED","message":null},"artifacts":[null,{"artifactId":"a","parts":[null,{"text":"Fine."}]}],"history":[null]}}`}, []string{"Fine."}},
		"another task":                           {[]string{taskEvent("WORKING", ""), `{"artifactUpdate":{"taskId":"t2","contextId":"c1","artifact":{"artifactId":"a","parts":[{"text":"Fine."}]}}}`, statusEvent("COMPLETED", "")}, []string{"Fine."}},
		"words after the end are not waited for": {[]string{messageEvent("Fine."), messageEvent("Or not.")}, []string{"Fine."}},
	} {
		for _, streams := range []bool{true, false} {
			if !streams && len(c.events) > 1 {
				continue
			}
			t.Run(fmt.Sprint(name, " streams=", streams), func(t *testing.T) {
				p := newWire(t, func(w http.ResponseWriter, cl call) {
					if streams {
						cl.stream(w, c.events...)
					} else {
						cl.reply(w, c.events[0])
					}
				})
				events, streamed, err := newRunner(t, remotetest.Billing(t, p.URL), runner.WithStreaming()).Turn("hi")
				require.NoError(t, err)
				require.Equal(t, c.said, remotetest.Texts(events))
				if len(c.said) == 0 {
					require.Empty(t, streamed)
				}
				require.Equal(t, event.FinishReasonStop, lastEnd(events))
			})
		}
	}
}

// What nobody can read at all is not asked for again and again. The task is still asked
// for, once the stream is given up.
func TestUnreadableStreams(t *testing.T) {
	for name, bad := range map[string]string{
		"cut off":    `{"task":`,
		"null":       `null`,
		"a number":   `7`,
		"empty":      `{}`,
		"wrong type": `{"task":{"id":"t1","status":{"state":"x"},"artifacts":[]},"message":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, func(w http.ResponseWriter, c call) {
				if c.Method == gets {
					c.reply(w, taskJSON("COMPLETED", "", "a", "All of it."))
					return
				}
				c.stream(w, taskEvent("WORKING", ""), deltaEvent("a", "All "), bad, deltaEvent("a", "of it."), statusEvent("COMPLETED", ""))
			})
			events, streamed, err := newRunner(t, remotetest.Billing(t, p.URL), runner.WithStreaming()).Turn("hi")
			require.NoError(t, err)
			require.Equal(t, []string{"All of it."}, remotetest.Texts(events))
			require.Equal(t, "All of it.", streamed)
			require.LessOrEqual(t, len(p.made(gets))+len(p.made(subscribes)), 1)
		})
	}
	p := newWire(t, func(w http.ResponseWriter, c call) {
		if c.Method == gets {
			c.reply(w, `{"id":[]}`)
			return
		}
		c.stream(w, taskEvent("WORKING", ""), `{"task":`)
	})
	_, _, err := newRunner(t, remotetest.Billing(t, p.URL)).Turn("hi")
	requireCode(t, err, a2a.CodeProtocol)
	require.Len(t, p.made(gets), 1)
}

// A client that yields nothing at all, in every way in which that can be done.
func TestNilEverywhere(t *testing.T) {
	nothing := []sdk.Event{nil, (*sdk.Task)(nil), (*sdk.Message)(nil), (*sdk.TaskStatusUpdateEvent)(nil), (*sdk.TaskArtifactUpdateEvent)(nil),
		&sdk.Task{}, &sdk.TaskStatusUpdateEvent{}, &sdk.TaskArtifactUpdateEvent{}, &sdk.TaskArtifactUpdateEvent{Artifact: &sdk.Artifact{Parts: sdk.ContentParts{nil, {}}}}}
	c := &stub{
		send:      func(*sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] { return yields(nil, nothing...) },
		subscribe: func(context.Context) iter.Seq2[sdk.Event, error] { return yields(nil, nothing...) },
		get:       func(context.Context) (*sdk.Task, error) { return nil, nil }}
	r := must.Get(a2a.Remote("billing", "", a2a.WithClient(c)))
	_, _, err := newRunner(t, r, runner.WithStreaming()).Turn("hi")
	require.ErrorContains(t, err, "ended before it was complete")

	synctest.Test(t, func(t *testing.T) {
		c.send = func(*sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
			return yields(nil, append(nothing, working())...)
		}
		f := newRunner(t, r, runner.WithStreaming())
		_, _, err = f.Turn("hi")
		require.ErrorContains(t, err, "contains no task")

		long := working()
		long.ID, long.ContextID = sdk.TaskID(strings.Repeat("x", 1<<20)), strings.Repeat("x", 1<<20)
		c.send = func(*sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] { return yields(nil, long) }
		events, _, err := f.Turn("hi")
		require.ErrorContains(t, err, "ended before it was complete")
		require.Empty(t, remotetest.Find[*event.RemoteTask](events))
	})
}
