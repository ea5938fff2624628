{{/* A condition of CEL: the resource r is a device. */}}
{{- define "weir.isDevice" -}}
{{- range $at, $written := . -}}
{{- $name := first (splitList "=" $written) -}}
{{- if $at }} || {{ end -}}
{{- if hasSuffix "*" $name }}r.startsWith('{{ trimSuffix "*" $name }}'){{ else }}r == '{{ $name }}'{{ end -}}
{{- end -}}
{{- end -}}

{{/* The condition that the resource r is a device, or stands for a device class of GPUs. */}}
{{- define "weir.isGpu" -}}
{{- include "weir.isDevice" . -}}
{{- if not (contains ",deviceclass.resource.kubernetes.io/" (printf ",%s" (join "," .))) -}}
{{- range list "gpu.nvidia.com" "mig.nvidia.com" "gpu.amd.com" "gpu.intel.com" }} || r == 'deviceclass.resource.kubernetes.io/{{ . }}'{{ end -}}
{{- end -}}
{{- end -}}

{{/* A list of CEL. */}}
{{- define "weir.quotedList" -}}
[{{ range $at, $each := . }}{{ if $at }}, {{ end }}'{{ $each }}'{{ end }}]
{{- end -}}

{{/* Labels as KEY=VALUE, separated by commas. */}}
{{- define "weir.labels" -}}
{{- $written := list -}}
{{- range $key, $value := . }}{{ $written = append $written (printf "%s=%s" $key $value) }}{{ end -}}
{{- join "," $written -}}
{{- end -}}

{{- define "weir.pullSecrets" -}}
{{- $made := list -}}
{{- range . }}{{ $made = append $made (dict "name" .) }}{{ end -}}
{{- toJson $made -}}
{{- end -}}

{{/* Sources of traffic: ranges of addresses and namespaces. */}}
{{- define "weir.sources" -}}
{{- $made := list -}}
{{- range . -}}
{{- if contains "/" . -}}
{{- $made = append $made (dict "ipBlock" (dict "cidr" .)) -}}
{{- else -}}
{{- $label := dict "kubernetes.io/metadata.name" . -}}
{{- $made = append $made (dict "namespaceSelector" (dict "matchLabels" $label)) -}}
{{- end -}}
{{- end -}}
{{- toJson $made -}}
{{- end -}}

{{/* Traffic to destinations, each a source and a port, and to name servers. */}}
{{- define "weir.destinations" -}}
{{- $made := list -}}
{{- range . -}}
{{- $port := last (splitList ":" .) -}}
{{- $where := list (trimSuffix (printf ":%s" $port) .) -}}
{{- $ports := list (dict "protocol" "TCP" "port" (int $port)) -}}
{{- $made = append $made (dict "ports" $ports "to" (include "weir.sources" $where | fromJsonArray)) -}}
{{- end -}}
{{- $names := list -}}
{{- range $port := list 53 5353 -}}
{{- range $protocol := list "UDP" "TCP" -}}
{{- $names = append $names (dict "protocol" $protocol "port" $port) -}}
{{- end -}}
{{- end -}}
{{- toJson (append $made (dict "ports" $names)) -}}
{{- end -}}

{{/* The name of a PriorityClass. */}}
{{- define "weir.className" -}}
{{- if eq (first .).Values.priorityClasses "prefixed" }}weir-{{ end }}{{ last . -}}
{{- end -}}

{{/* An amount of a resource as a number. */}}
{{- define "weir.amount" -}}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 -}}
{{- $units = merge $units (dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776) -}}
{{- mulf (regexFind "^[0-9.]+" .) (get $units (regexFind "[a-zA-Z]*$" .)) -}}
{{- end -}}

{{/* Anything, if a range of addresses has bits after its prefix. */}}
{{- define "weir.bitsAfterPrefix" -}}
{{- $parts := splitList "/" . -}}
{{- $address := first $parts -}}
{{- $groups := splitList "." $address -}}
{{- $bits := 8 -}}
{{- $base := "" -}}
{{- if contains ":" $address -}}
{{- $bits = 16 -}}
{{- $base = "0x" -}}
{{- $sides := splitList "::" $address -}}
{{- $after := splitList ":" (last (rest $sides) | default "") -}}
{{- $groups = splitList ":" (first $sides) -}}
{{- range until (int (sub 8 (add (len $groups) (len $after)))) }}{{ $groups = append $groups "0" }}{{ end -}}
{{- if contains "::" $address }}{{ $groups = concat $groups $after }}{{ end -}}
{{- end -}}
{{- range $at, $group := $groups -}}
{{- $prefix := sub (last $parts | int) (mul $at $bits) | max 0 | min $bits -}}
{{- $unit := 1 -}}
{{- range until (int (sub $bits $prefix)) }}{{ $unit = mul 2 $unit }}{{ end -}}
{{- if mod (printf "%s%s" $base ($group | default "0") | int64) $unit }}yes{{ end -}}
{{- end -}}
{{- end -}}
