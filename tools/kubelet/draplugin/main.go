// draplugin serves fake GPUs to a kubelet for resource claims: the node part of a DRA driver.
//
//	draplugin NODE KUBECONFIG NUMBER DIVISIBLE
//
// It publishes the devices gpu-0 ... of a node, until killed. The last DIVISIBLE of them can be shared between claims
// by parts of their memory. A container gets /dev/nvidiaN, which is a null device, and the variable CLAIMED_N for
// each device N of its claims. CLAIMED_N is "whole", or the bytes of the part.
//
// It keeps what is prepared in a file, and refuses a claim of a device in use, as a real driver must.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	api "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	driver    = "gpu.nvidia.com"
	prefix    = "gpu-"
	kind      = driver + "/claim"
	memory    = 80 << 30
	step      = 10 << 30
	data      = "/var/lib/kubelet/plugins/" + driver
	specs     = "/run/cdi"
	perSwitch = 2
)

func main() {
	log.SetFlags(log.Ltime)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(words []string) error {
	if len(words) != 4 {
		return errors.New("usage: draplugin NODE KUBECONFIG NUMBER DIVISIBLE")
	}
	node := words[0]
	number, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	divisible, err := strconv.Atoi(words[3])
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", words[1])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, directory := range []string{data, specs} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	gpus := &gpus{node: node, prepared: map[types.UID][]part{}}
	if err := gpus.read(); err != nil {
		return err
	}
	ctx := context.Background()
	helper, err := kubeletplugin.Start(ctx, gpus, kubeletplugin.KubeClient(client), kubeletplugin.NodeName(node),
		kubeletplugin.DriverName(driver), kubeletplugin.PluginDataDirectoryPath(data))
	if err != nil {
		return err
	}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: devices(number, divisible)}}}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{node: pool},
	}); err != nil {
		return err
	}
	log.Printf("serving %d devices, %d of them divisible", number, divisible)
	select {}
}

func devices(number, divisible int) []api.Device {
	var found []api.Device
	for index := range number {
		root := fmt.Sprintf("root-%d", index/perSwitch)
		total := api.DeviceCapacity{Value: *resource.NewQuantity(memory, resource.BinarySI)}
		device := api.Device{
			Name: prefix + strconv.Itoa(index),
			Attributes: map[api.QualifiedName]api.DeviceAttribute{
				"resource.kubernetes.io/pcieRoot": {StringValue: &root},
			},
		}
		if index >= number-divisible {
			least := resource.NewQuantity(step, resource.BinarySI)
			total.RequestPolicy = &api.CapacityRequestPolicy{
				Default:    least,
				ValidRange: &api.CapacityRequestPolicyRange{Min: least, Step: least},
			}
			shared := true
			device.AllowMultipleAllocations = &shared
		}
		device.Capacity = map[api.QualifiedName]api.DeviceCapacity{"memory": total}
		found = append(found, device)
	}
	return found
}

// part is a device of a claim, or a part of it.
type part struct {
	Device  string
	Share   types.UID
	Bytes   int64
	Request string
}

type gpus struct {
	node     string
	prepared map[types.UID][]part
}

func (g *gpus) PrepareResourceClaims(
	_ context.Context, claims []*api.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		results[claim.UID] = g.prepare(claim)
	}
	return results, nil
}

func (g *gpus) prepare(claim *api.ResourceClaim) kubeletplugin.PrepareResult {
	wanted := parts(claim)
	if held, known := g.prepared[claim.UID]; known {
		wanted = held
	} else if err := g.conflict(claim.UID, wanted); err != nil {
		log.Printf("REFUSED %s/%s: %v", claim.Namespace, claim.Name, err)
		return kubeletplugin.PrepareResult{Err: err}
	}
	g.prepared[claim.UID] = wanted
	if err := errors.Join(g.write(), writeSpec(claim.UID, wanted)); err != nil {
		return kubeletplugin.PrepareResult{Err: err}
	}
	var result kubeletplugin.PrepareResult
	for index, each := range wanted {
		device := kubeletplugin.Device{
			Requests:     []string{each.Request},
			PoolName:     g.node,
			DeviceName:   each.Device,
			CDIDeviceIDs: []string{fmt.Sprintf("%s=%s-%d", kind, claim.UID, index)},
		}
		if each.Share != "" {
			device.ShareID = &each.Share
		}
		result.Devices = append(result.Devices, device)
	}
	log.Printf("prepared %s/%s: %v", claim.Namespace, claim.Name, wanted)
	return result
}

func (g *gpus) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		delete(g.prepared, claim.UID)
		err := os.Remove(specFile(claim.UID))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		results[claim.UID] = errors.Join(err, g.write())
		log.Printf("released %s", claim.NamespacedName)
	}
	return results, nil
}

func (g *gpus) HandleError(_ context.Context, err error, text string) {
	log.Printf("%s: %v", text, err)
}

func parts(claim *api.ResourceClaim) []part {
	var found []part
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != driver {
			continue
		}
		one := part{Device: result.Device, Request: result.Request}
		if result.ShareID != nil {
			amount := result.ConsumedCapacity["memory"]
			one.Share, one.Bytes = *result.ShareID, amount.Value()
		}
		found = append(found, one)
	}
	return found
}

// conflict says why a claim can't have its devices beside the claims that are prepared.
func (g *gpus) conflict(uid types.UID, wanted []part) error {
	used := map[string]int64{}
	for other, held := range g.prepared {
		for _, each := range held {
			if other != uid {
				used[each.Device] += size(each)
			}
		}
	}
	for _, each := range wanted {
		used[each.Device] += size(each)
		if used[each.Device] > memory {
			return fmt.Errorf("%s is in use: %v", each.Device, g.prepared)
		}
	}
	return nil
}

func size(one part) int64 {
	if one.Share == "" {
		return memory
	}
	return one.Bytes
}

// Files

func (g *gpus) read() error {
	text, err := os.ReadFile(filepath.Join(data, "prepared.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &g.prepared)
}

func (g *gpus) write() error {
	return writeFile(filepath.Join(data, "prepared.json"), g.prepared)
}

func specFile(uid types.UID) string {
	return filepath.Join(specs, fmt.Sprintf("%s-%s.json", driver, uid))
}

// writeSpec tells the container runtime the files and variables of a claim's devices.
func writeSpec(uid types.UID, held []part) error {
	type object = map[string]any
	var devices []object
	for index, each := range held {
		number, value := strings.TrimPrefix(each.Device, prefix), "whole"
		if each.Share != "" {
			value = strconv.FormatInt(each.Bytes, 10)
		}
		devices = append(devices, object{
			"name": fmt.Sprintf("%s-%d", uid, index),
			"containerEdits": object{
				"env":         []string{fmt.Sprintf("CLAIMED_%s=%s", number, value)},
				"deviceNodes": []object{{"path": "/dev/nvidia" + number, "hostPath": "/dev/null"}},
			},
		})
	}
	return writeFile(specFile(uid), object{"cdiVersion": "0.6.0", "kind": kind, "devices": devices})
}

// writeFile replaces a file in one move, so that a kill leaves the old or the new one.
func writeFile(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
