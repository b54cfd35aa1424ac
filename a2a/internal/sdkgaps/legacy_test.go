package sdkgaps

import (
	"context"
	"net/http"
	"strings"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
)

func legacy() http.Handler {
	return a2av0.NewJSONRPCHandler(a2asrv.NewHandler(executor{},
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(nil))))
}

func TestDigitsOfRequestIDsAreLost03(t *testing.T) {
	_, body := ask(legacy(), "POST", "/", `{"jsonrpc":"2.0","id":12345678901234567,"method":"tasks/get","params":{"id":"none"}}`)
	mended(t, !strings.Contains(body, "12345678901234567"), "keeps the digits of request ids of 0.3", "the methods and streams of a2a/a2av0/methods.go")
}

func TestErrorBeforeTheFirstEventIsAFrame03(t *testing.T) {
	resp, body := ask(legacy(), "POST", "/", `{"jsonrpc":"2.0","id":1,"method":"tasks/resubscribe","params":{"id":"none"}}`)
	mended(t, resp.StatusCode == 200 && strings.Contains(body, "data:"), "answers an early error of a stream of 0.3 as JSON",
		"the argument allFrames in sse.go of a2a/internal/wire")
}

// deleter deletes every push configuration.
type deleter struct{ a2asrv.RequestHandler }

func (deleter) DeleteTaskPushConfig(context.Context, *sdk.DeleteTaskPushConfigRequest) error {
	return nil
}

func TestResultThatIsNullIsLeftOut03(t *testing.T) {
	h := a2av0.NewJSONRPCHandler(deleter{a2asrv.NewHandler(executor{})})
	_, body := ask(h, "POST", "/", `{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/delete","params":{"id":"t","pushNotificationConfigId":"c"}}`)
	mended(t, !strings.Contains(body, `"result"`) && !strings.Contains(body, `"error"`), "writes a result of 0.3 that is null",
		"the null result in a2a/a2av0/methods.go")
}

func TestPushConfigAlonePanics03(t *testing.T) {
	panicked := true
	func() {
		defer func() { _ = recover() }()
		ask(legacy(), "POST", "/", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"configuration":{"pushNotificationConfig":{"url":"https://hooks.example"}}}}`)
		panicked = false
	}()
	mended(t, panicked, "survives a push configuration of 0.3 without a message", "toSend of a2a/a2av0/convert.go")
}

func TestSecuritySchemesForBothVersions(t *testing.T) {
	both := a2av0.NewStaticAgentCardProducer(&sdk.AgentCard{SupportedInterfaces: []*sdk.AgentInterface{{ProtocolVersion: a2av0.Version}},
		SecuritySchemes: sdk.NamedSecuritySchemes{"key": sdk.APIKeySecurityScheme{Name: "k"}}})
	doc, err := both.(a2asrv.AgentCardJSONProducer).CardJSON(t.Context())
	mended(t, err == nil && !strings.Contains(string(doc), "apiKeySecurityScheme"), "writes security schemes for clients of 1.0 in a card for both versions",
		"the loop over schemes in a2a/a2av0/card.go")
}

func TestOneOddValueBreaksAnAnswer03(t *testing.T) {
	for what, odd := range map[string]string{"parts of unknown kinds": `"artifacts":[{"parts":[{"kind":"hologram"}]}]`, "times without a zone": `"status":{"timestamp":"2025-01-01T00:00:00"}`} {
		_, err := old.UnmarshalEventJSON([]byte(`{"kind":"task",` + odd + `}`))
		mended(t, err != nil, "reads "+what+" of 0.3", "dropUnreadable of a2a/a2av0/repair.go")
	}
}
