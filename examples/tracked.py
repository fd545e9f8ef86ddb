"""MLflow keeps a ranker with its settings and its NDCG@10, and the runs of an experiment. Run: python examples/tracked.py

It needs mlflow and the extra `sklearn`. The model is pickled: load only what you trust, or log the file of `online_rank.save`.
"""

import tempfile
from pathlib import Path

import mlflow

from online_rank import AdditiveRanker, PerceptronRanker, evaluate
from online_rank.sklearn import SklearnRanker
from online_rank.stream import NoisyTeacher

X, y, qid = NoisyTeacher(n_queries=300, n_features=5, n_documents=10, seed=1).block()
first, later = qid < 200, qid >= 200


def track(run: evaluate.Run) -> None:
    """A run of the experiment as a run of MLflow."""
    with mlflow.start_run(run_name=f"{run.model} on {run.stream}, seed {run.seed}"):
        mlflow.log_params({"model": run.model, "stream": run.stream, "seed": run.seed})
        mlflow.log_metrics({name.replace("@", "_"): value for name, value in run.values.items()})


with tempfile.TemporaryDirectory() as folder:
    mlflow.set_tracking_uri(f"sqlite:///{folder}/runs.db")
    mlflow.create_experiment("ranking", Path(folder).as_uri())
    mlflow.set_experiment("ranking")
    with mlflow.start_run() as run:
        ranker = SklearnRanker(AdditiveRanker()).fit(X[first], y[first], qid=qid[first])
        mlflow.log_params({name: value for name, value in ranker.get_params().items() if name != "model"})
        mlflow.log_metric("ndcg_10", ranker.score(X[later], y[later], qid=qid[later]))
        mlflow.sklearn.log_model(ranker, "ranker", serialization_format="cloudpickle")
    print("NDCG@10 of later queries:", round(mlflow.get_run(run.info.run_id).data.metrics["ndcg_10"], 3))
    again = mlflow.sklearn.load_model(f"runs:/{run.info.run_id}/ranker")
    print("it scores as before:", (again.predict(X, qid) == ranker.predict(X, qid)).all())
    again.partial_fit(X[later], y[later], qid=qid[later])
    print("it continues:", again.model_.n_queries, "queries")
    models = {"additive": AdditiveRanker(), "perceptron": PerceptronRanker()}
    evaluate.Experiment(models, {"noisy": NoisyTeacher(n_queries=100)}, ["ndcg@10", "mrr"], seeds=2).run(watch=track)
    print("runs of the experiment:", len(mlflow.search_runs(output_format="list", filter_string="params.stream = 'noisy'")))
