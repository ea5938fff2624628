// gpuplugin serves fake GPUs to a kubelet, and lists the devices that the kubelet has allocated.
//
//	gpuplugin serve NUMBER FILE   offer the devices GPU-0 ... as nvidia.com/gpu, until killed
//	gpuplugin list SOCKET         write the kubelet's answer to PodResourcesLister.List as JSON
//
// A container gets the IDs of its devices in NVIDIA_VISIBLE_DEVICES, and /dev/nvidiaN for each of them, which is
// a null device. FILE holds the indices of unhealthy devices, one a line; it is read every 200 ms and may be missing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	resource  = "nvidia.com/gpu"
	prefix    = "GPU-"
	socket    = "fake-gpus.sock"
	interval  = 200 * time.Millisecond
	timeout   = 10 * time.Second
	listLimit = 16 << 20
)

func main() {
	log.SetFlags(log.Ltime)
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "serve":
		var number int
		if number, err = strconv.Atoi(os.Args[2]); err == nil {
			err = serve(number, os.Args[3])
		}
	case len(os.Args) == 3 && os.Args[1] == "list":
		err = list(os.Args[2])
	default:
		err = fmt.Errorf("usage: gpuplugin serve NUMBER FILE | gpuplugin list SOCKET")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func dial(path string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func list(path string) error {
	connection, err := dial(path)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	answer, err := podresources.NewPodResourcesListerClient(connection).List(
		ctx, &podresources.ListPodResourcesRequest{}, grpc.MaxCallRecvMsgSize(listLimit))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

type gpus struct {
	plugin.UnimplementedDevicePluginServer
	number    int
	unhealthy string
}

// serve registers with the kubelet, and does so again whenever the kubelet has started anew: a kubelet removes all
// sockets of plugins when it starts.
func serve(number int, unhealthy string) error {
	own := filepath.Join(plugin.DevicePluginPath, socket)
	for {
		if _, err := os.Stat(plugin.KubeletSocket); err != nil {
			time.Sleep(interval)
			continue
		}
		os.Remove(own)
		listener, err := net.Listen("unix", own)
		if err != nil {
			return err
		}
		server := grpc.NewServer()
		plugin.RegisterDevicePluginServer(server, &gpus{number: number, unhealthy: unhealthy})
		go server.Serve(listener)
		if err := register(); err != nil {
			log.Printf("not registered: %v", err)
			time.Sleep(interval)
		} else {
			log.Printf("registered %d devices", number)
			for {
				if _, err := os.Stat(own); err != nil {
					break
				}
				time.Sleep(interval)
			}
		}
		server.Stop()
	}
}

func register() error {
	connection, err := dial(plugin.KubeletSocket)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err = plugin.NewRegistrationClient(connection).Register(
		ctx, &plugin.RegisterRequest{Version: plugin.Version, Endpoint: socket, ResourceName: resource})
	return err
}

func (g *gpus) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (g *gpus) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	last := "not read yet"
	for stream.Context().Err() == nil {
		said, _ := os.ReadFile(g.unhealthy)
		if string(said) != last {
			last = string(said)
			if err := stream.Send(g.devices(last)); err != nil {
				return err
			}
		}
		time.Sleep(interval)
	}
	return nil
}

func (g *gpus) devices(unhealthy string) *plugin.ListAndWatchResponse {
	ill := map[string]bool{}
	for _, index := range strings.Fields(unhealthy) {
		ill[index] = true
	}
	answer := &plugin.ListAndWatchResponse{}
	for index := range g.number {
		health := plugin.Healthy
		if ill[strconv.Itoa(index)] {
			health = plugin.Unhealthy
		}
		answer.Devices = append(answer.Devices, &plugin.Device{ID: prefix + strconv.Itoa(index), Health: health})
	}
	return answer
}

func (g *gpus) Allocate(_ context.Context, asked *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	answer := &plugin.AllocateResponse{}
	for _, container := range asked.ContainerRequests {
		given := &plugin.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		}
		for _, id := range container.DevicesIds {
			given.Devices = append(given.Devices, &plugin.DeviceSpec{
				HostPath:      "/dev/null",
				ContainerPath: "/dev/nvidia" + strings.TrimPrefix(id, prefix),
				Permissions:   "rw",
			})
		}
		answer.ContainerResponses = append(answer.ContainerResponses, given)
	}
	return answer, nil
}
