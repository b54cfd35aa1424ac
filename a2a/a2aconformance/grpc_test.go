package a2aconformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/agentarbor/arbor/a2a/a2aconformance"
)

// overGRPC is the gRPC binding over a connection. What the operations take and give is
// found in the descriptor of the service.
func overGRPC(conn *grpc.ClientConn, authorize func(caller string) map[string]string) a2aconformance.Binding {
	service := pb.File_a2av1_proto.Services().ByName("A2AService")
	begin := func(ctx context.Context, r a2aconformance.Request) (context.Context, string, proto.Message, proto.Message, error) {
		method := service.Methods().ByName(protoreflect.Name(r.Operation))
		if method == nil {
			return nil, "", nil, nil, fmt.Errorf("gRPC has no operation %q", r.Operation)
		}
		in, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
		if err != nil {
			return nil, "", nil, nil, err
		}
		out, err := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
		if err != nil {
			return nil, "", nil, nil, err
		}
		params, err := json.Marshal(r.Params)
		if err != nil {
			return nil, "", nil, nil, err
		}
		req := in.New().Interface()
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(params, req); err != nil {
			return nil, "", nil, nil, err
		}
		version := r.Version
		if version == "" {
			version = "1.0"
		}
		ctx = metadata.AppendToOutgoingContext(ctx, "a2a-version", version)
		if len(r.Extensions) > 0 {
			ctx = metadata.AppendToOutgoingContext(ctx, "a2a-extensions", strings.Join(r.Extensions, ","))
		}
		if authorize != nil {
			for k, v := range authorize(r.Caller) {
				ctx = metadata.AppendToOutgoingContext(ctx, k, v)
			}
		}
		return ctx, fmt.Sprintf("/%s/%s", service.FullName(), method.Name()), req, out.New().Interface(), nil
	}
	return a2aconformance.Binding{Name: "GRPC", Code: a2aconformance.CodeGRPC,
		Malformed: []a2aconformance.Malformed{{Name: "a method that is not there", Code: int(codes.Unimplemented), Do: func(ctx context.Context, _ string) error {
			return told(conn.Invoke(ctx, fmt.Sprintf("/%s/NoSuchMethod", service.FullName()), &pb.GetTaskRequest{}, &pb.Task{}))
		}}},
		Call: func(ctx context.Context, r a2aconformance.Request) (json.RawMessage, error) {
			ctx, method, req, res, err := begin(ctx, r)
			if err != nil {
				return nil, err
			}
			if err := conn.Invoke(ctx, method, req, res, grpc.WaitForReady(true)); err != nil {
				return nil, told(err)
			}
			return protojson.Marshal(res)
		},
		Stream: func(ctx context.Context, r a2aconformance.Request) iter.Seq2[json.RawMessage, error] {
			return func(yield func(json.RawMessage, error) bool) {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				ctx, method, req, res, err := begin(ctx, r)
				if err != nil {
					yield(nil, err)
					return
				}
				stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method, grpc.WaitForReady(true))
				if err == nil {
					err = stream.SendMsg(req)
				}
				if err == nil {
					err = stream.CloseSend()
				}
				for err == nil {
					proto.Reset(res)
					if err = stream.RecvMsg(res); err != nil {
						break
					}
					data, jsonErr := protojson.Marshal(res)
					if !yield(data, jsonErr) || jsonErr != nil {
						return
					}
				}
				if !errors.Is(err, io.EOF) {
					yield(nil, told(err))
				}
			}
		},
	}
}

// told makes an error of a status.
func told(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	e := &a2aconformance.Error{Code: int(s.Code()), Message: s.Message()}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			e.Reason, e.Domain = info.Reason, info.Domain
		}
	}
	return e
}
