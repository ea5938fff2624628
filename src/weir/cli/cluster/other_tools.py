"""Other tools for requests that a cluster doesn't answer."""

from collections.abc import Sequence

NO_DESKTOP = (
    "a cluster shows nothing on a desktop: follow kubectl get events --watch, or choose another channel"
)
_ACCESS = "RBAC grants the rights of a cluster"


def instead_of(parts: Sequence[str]) -> str:
    """Return the tool that does this on a cluster; `parts` are those of the request's path."""
    match parts:
        case ["workloads", name, action, *_]:
            return _of_workload(name, action)
        case ["projects" | "departments", name, *rest]:
            return _of_queue(name, rest)
        case ["nodes", name, action, *rest]:
            return _of_node(name, action, rest)
        case ["notifications", "desktop", *_]:
            return NO_DESKTOP
        case ["sweeps", name, *_]:
            return f"change the Sweep itself: kubectl edit sweep {name.rpartition('/')[2]}"
    return _BY_RESOURCE.get(parts[0] if parts else "", "a cluster doesn't answer that")


_BY_RESOURCE = {
    "audit": "a cluster has an audit log of its own: see its API server's settings",
    "checkpoints": "the pods of a cluster save in volumes of their own: kubectl get pvc lists the claims",
    "dashboard": "weir dashboard opens the page of a cluster",
    "history": "a cluster writes no trace: weir report history -o json has its numbers",
    "maintenance": "nodes of a cluster are taken out of service when it is time: kubectl drain NODE",
    "notifications": "change the NotificationRule itself: kubectl edit notificationrule",
    "previews": "a cluster tries no submission out: submit it, and weir why says why it waits",
    "priorities": "its priority classes are those of Kubernetes: kubectl get priorityclasses",
    "schedules": "change the CronJob itself: kubectl edit cronjob",
    "stream": "changes are followed with kubectl get workloads.weir.dev -A --watch",
    "tokens": f"{_ACCESS}: bind the ClusterRole weir-view",
}


def _of_workload(name: str, part: str) -> str:
    namespace, _, bare = name.rpartition("/")
    within, job = f"-n {namespace} " if namespace else "", bare.removeprefix("job-")
    if part == "logs":
        return f"the output is with the cluster's nodes: weir logs {name} -f"
    if part == "indices":
        pods = f"kubectl get pods {within}-l batch.kubernetes.io/job-name={job}"
        return f"each index of a Job is a pod: {pods}; weir logs {name} --index N prints the output of one"
    return f"weir exec {name} -- COMMAND runs a command in its pod, and weir shell {name} opens a shell"


def _of_queue(name: str, rest: Sequence[str]) -> str:
    match rest:
        case ["secrets", *_]:
            return (
                "a cluster has Secrets of its own: kubectl create secret generic makes one, and pods name it "
                "in their env"
            )
        case ["members", *_]:
            bind = "kubectl create rolebinding NAME -n NAMESPACE --clusterrole=edit --user=USER"
            return f"{_ACCESS}, by namespaces of {name}: {bind}"
        case ["templates", *_]:
            return "change the ConfigMap of the template itself: kubectl edit configmap"
    return f"change the object itself: kubectl edit projects.weir.dev {name}"


def _of_node(name: str, part: str, rest: Sequence[str]) -> str:
    match part, rest:
        case "gpus", [gpu, *_]:
            return (
                f"GPU {gpu} is taken out of service by the device plugin of {name}, which reports it as "
                f"unhealthy; kubectl drain {name} takes the whole node"
            )
        case "undrain", _:
            return f"pods start on a node of a cluster again with kubectl uncordon {name}"
        case "drain", _:
            return f"a node of a cluster is drained with kubectl drain {name} --ignore-daemonsets"
    return f"kubectl get pods -A --field-selector spec.nodeName={name} lists the pods of a node"
