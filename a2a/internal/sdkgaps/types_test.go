package sdkgaps

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1/pbconv"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/agentarbor/arbor/internal/testing/must"
)

func TestProtobufLosesDataThatIsNoObject(t *testing.T) {
	_, err := pbconv.ToProtoStreamResponse(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewDataPart([]any{"a"})))
	list, _ := structpb.NewValue([]any{"a"})
	got, _ := pbconv.FromProtoMessage(&pb.Message{MessageId: "m", Role: pb.Role_ROLE_AGENT, Parts: []*pb.Part{{Content: &pb.Part_Data{Data: list}}}})
	data, _ := got.Parts[0].Data().(map[string]any)
	mended(t, err != nil || data != nil, "converts data of all kinds to protobuf", "encode and decode of a2agrpc/convert.go")
}

func TestProtobufRefusesTypedLists(t *testing.T) {
	m := sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("a"))
	m.SetMeta("chain", []string{"a"})
	_, err := pbconv.ToProtoStreamResponse(m)
	mended(t, err != nil, "converts metadata of all types to protobuf", "encode of a2agrpc/convert.go")
}

func TestOneUnknownPartBreaksAnAnswer(t *testing.T) {
	err := json.Unmarshal([]byte(`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"a"},{"hologram":1}]}}`), new(sdk.StreamResponse))
	mended(t, err != nil, "reads answers with parts of unknown kinds", "Mend of a2a/internal/sdkjson")
}

func TestOneUnknownEventBreaksAStream(t *testing.T) {
	err := json.Unmarshal([]byte(`{"odd":{}}`), new(sdk.StreamResponse))
	mended(t, err != nil, "reads events of unknown kinds", "mendPayload of a2a/internal/sdkjson")
}

func TestDataThatIsNullIsNotRead(t *testing.T) {
	err := json.Unmarshal([]byte(`{"data":null}`), new(sdk.Part))
	mended(t, err != nil, "reads data that is null", "the case of null in object of a2a/internal/sdkjson")
}

func TestIDsInPathsAreNotEscaped(t *testing.T) {
	var path string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { path = r.URL.EscapedPath() }))
	defer s.Close()
	client := a2aclient.NewRESTTransport(must.Get(url.Parse(s.URL)), s.Client())
	_, _ = client.GetTask(t.Context(), nil, &sdk.GetTaskRequest{ID: "../card"})
	mended(t, path == "/card", "escapes ids in paths", "taskIDGuard of a2a/binding.go")
}
