package a2atest_test

import (
	"context"
	"net"
	"net/http/httptest"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	sdkgrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/agentarbor/arbor/a2a/a2agrpc"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// serveKit serves the kit's agent over all three bindings.
func serveKit(t *testing.T, opts ...a2aserver.Option) (url, grpcAddress string) {
	t.Helper()
	kit := must.Get(kitAgent())
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	grpcAddress = listener.Addr().String()
	server := must.Get(a2aserver.New(kit, sessiontest.Memory(t), append(opts,
		a2aserver.WithDirectAnswers(kitDirect), a2aserver.WithInterface(a2agrpc.Interface("http://"+grpcAddress)))...))
	overHTTP := httptest.NewServer(server)
	t.Cleanup(overHTTP.Close)
	overGRPC := must.Get(a2agrpc.NewServer(server, nil))
	go func() { _ = overGRPC.Serve(listener) }()
	t.Cleanup(overGRPC.Stop)
	return overHTTP.URL, grpcAddress
}

// TestKit asks for what the protocol's conformance kit asks for, with the protocol's own
// client over every binding.
func TestKit(t *testing.T) {
	url, grpcAddress := serveKit(t)
	for _, i := range []sdk.AgentInterface{
		{URL: url + "/rpc", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: sdk.Version},
		{URL: url, ProtocolBinding: sdk.TransportProtocolHTTPJSON, ProtocolVersion: sdk.Version},
		a2agrpc.Interface(grpcAddress),
	} {
		t.Run(string(i.ProtocolBinding), func(t *testing.T) {
			c := must.Get(a2aclient.NewFromEndpoints(t.Context(), []*sdk.AgentInterface{&i}, sdkgrpc.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials()))))
			send := func(id string) sdk.SendMessageResult {
				res, err := c.SendMessage(context.Background(), &sdk.SendMessageRequest{Message: &sdk.Message{ID: id + "-1", Role: sdk.MessageRoleUser, Parts: sdk.ContentParts{sdk.NewTextPart("kit")}}})
				require.NoError(t, err, id)
				return res
			}
			part := func(id string) *sdk.Part {
				task := send(id).(*sdk.Task)
				require.Equal(t, sdk.TaskStateCompleted, task.Status.State, id)
				require.Len(t, task.Artifacts, 1, id)
				require.Len(t, task.Artifacts[0].Parts, 1, id)
				return task.Artifacts[0].Parts[0]
			}
			require.Equal(t, "Hello from TCK", part("tck-complete-task").Text())
			require.Equal(t, "Generated text content", part("tck-artifact-text").Text())
			require.Equal(t, map[string]any{"key": "value", "count": 42.0}, part("tck-artifact-data").Data())
			file := part("tck-artifact-file")
			require.Equal(t, "tck", string(file.Raw()))
			require.Equal(t, []string{"output.txt", "text/plain"}, []string{file.Filename, file.MediaType})
			far := part("tck-artifact-file-url")
			require.Equal(t, sdk.URL("https://example.com/output.txt"), far.URL())
			require.Equal(t, []string{"output.txt", "text/plain"}, []string{far.Filename, far.MediaType})
			require.Equal(t, "chunk-1 chunk-2", part("tck-stream-artifact-chunked").Text())
			message, ok := send("tck-message-response").(*sdk.Message)
			require.True(t, ok)
			require.Equal(t, "Direct message response", message.Parts[0].Text())
			require.Equal(t, sdk.TaskStateInputRequired, send("tck-input-required").(*sdk.Task).Status.State)
			require.Equal(t, sdk.TaskStateFailed, send("tck-reject-task").(*sdk.Task).Status.State)
		})
	}
}
