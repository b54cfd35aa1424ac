package a2agrpc

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/errordetails"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/agentarbor/arbor/a2a/internal/wire"
)

// toError makes the status of an error that a handler returned. Errors that the protocol does
// not name are not sent: they can hold what is not for the caller. The second result says
// whether err is one of them and should be logged.
func toError(err error) (st error, hidden bool) {
	t := wire.Tell(err, "", time.Time{})
	out := &spb.Status{Code: int32(codeOf(t.Kind)), Message: t.Message}
	for _, d := range t.Details {
		var form any = d
		if d.TypeURL == errordetails.StructType { // whose fields are below a name of their own in Any
			form = map[string]any{"@type": d.TypeURL, "value": d.Value}
		}
		if detail, err := encode[any, anypb.Any](form); err == nil { // without it the code still says what it is
			out.Details = append(out.Details, detail)
		}
	}
	return status.ErrorProto(out), t.Inner
}

func codeOf(k wire.Kind) (code codes.Code) {
	_ = code.UnmarshalJSON([]byte(strconv.Quote(k.Name))) // the names are gRPC's
	return code
}

// fromError makes the protocol's error of a status that a peer answered. The reason decides, if
// there is one: in version 1.0.0 of the specification some errors had other codes. A status that
// has none, of a code by which servers fail in ways of their own, is no error of the protocol:
// it does not say how far they got.
func fromError(st *status.Status) error {
	var reason string
	var meta map[string]string
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == sdk.ProtocolDomain {
			reason, meta = info.GetReason(), info.GetMetadata()
		}
	}
	i := slices.IndexFunc(wire.Kinds, func(k wire.Kind) bool { return k.Reason == reason })
	if i < 0 && st.Code() != codes.Internal {
		i = slices.IndexFunc(wire.Kinds, func(k wire.Kind) bool { return codeOf(k) == st.Code() })
	}
	if i < 0 {
		return fmt.Errorf("the server answered %s: %s", st.Code(), st.Message())
	}
	err := sdk.NewError(wire.Kinds[i].Err, st.Message())
	if len(meta) > 0 {
		err = err.WithErrorInfoMeta(meta)
	}
	return err
}
